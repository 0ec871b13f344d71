"""The TLS side of a client against a real handshake: whom it trusts, and what it shows."""

import ssl
from pathlib import Path

import pytest

from tailrace.core.runtime.config import Secret
from tailrace.core.security.tls_client import client_context
from tailrace.core.security.tls_config import TlsConfig, TlsStores
from tailrace.core.security.tls_server import TlsServer
from tests.certificates import Authority


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("keys"))


def shake(client: ssl.SSLContext, server: ssl.SSLContext, name: str = "localhost") -> None:
    """Shake hands in memory. Errors: ssl.SSLError of the side that does not want."""
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [
        client.wrap_bio(down, up, server_hostname=name),
        server.wrap_bio(up, down, server_side=True),
    ]
    waiting = list(sides)
    while waiting:
        for side in list(waiting):
            try:
                side.do_handshake()
                waiting.remove(side)
            except ssl.SSLWantReadError:
                pass
    sides[1].write(b"1")
    assert sides[0].read(1) == b"1"  # with TLS 1.3 a client hears only now that it is refused


def test_a_server_of_the_authority_is_trusted_under_its_name_alone(authority: Authority) -> None:
    store = authority.store("server", "localhost")
    server = TlsServer(TlsConfig(keystore_location=store)).context
    trust = TlsStores(truststore_location=authority.certificate)
    shake(client_context(trust, "https"), server)
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        shake(client_context(trust, "https"), server, "other.host")
    shake(client_context(trust, ""), server, "other.host")


@pytest.mark.parametrize("identification", ["https", ""])
def test_a_server_of_another_authority_is_never_trusted(
    authority: Authority, tmp_path: Path, identification: str
) -> None:
    assert identification in ("https", "")
    store = Authority(tmp_path / "others").store("server", "localhost")
    server = TlsServer(TlsConfig(keystore_location=store)).context
    for trust in (TlsStores(truststore_location=authority.certificate), TlsStores()):
        with pytest.raises(ssl.SSLCertVerificationError):
            shake(client_context(trust, identification), server)  # type: ignore[arg-type]


def test_a_client_shows_its_certificate(authority: Authority) -> None:
    config = TlsConfig(
        keystore_location=authority.store("server", "localhost"),
        truststore_location=authority.certificate,
        client_auth="required",
    )
    server = TlsServer(config).context
    trust = TlsStores(truststore_location=authority.certificate)
    with pytest.raises(ssl.SSLError, match="PEER_DID_NOT_RETURN_A_CERTIFICATE"):
        shake(client_context(trust, "https"), server)
    shown = TlsStores(
        truststore_location=authority.certificate,
        keystore_type="PKCS12",
        keystore_location=authority.pkcs12("me", "sesame"),
        keystore_password=Secret("sesame"),
    )
    shake(client_context(shown, "https"), server)


def test_versions_are_those_of_the_settings(authority: Authority) -> None:
    store = authority.store("server", "localhost")
    server = TlsServer(TlsConfig(keystore_location=store, enabled_protocols=("TLSv1.2",))).context
    trust = TlsStores(truststore_location=authority.certificate, enabled_protocols=("TLSv1.3",))
    with pytest.raises(ssl.SSLError):
        shake(client_context(trust, "https"), server)
