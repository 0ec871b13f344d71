"""Settings of TLS by BookKeeper's names: what they mean, what cannot be used, files that change."""

import asyncio
import ssl
from pathlib import Path
from typing import Any

import pytest

from tailrace.core.runtime.config import Assignment, ConfigError, load
from tailrace.core.security.bookkeeper_tls import BookKeeperTls, make_context
from tailrace.core.security.bookkeeper_tls_config import FACTORY, BookKeeperTlsConfig
from tailrace.core.security.keys import InvalidKeys
from tests.certificates import Authority, fingerprint, fingerprint_of

HOST = "127.0.0.1"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("keys"))


def config(**given: Any) -> BookKeeperTlsConfig:
    return BookKeeperTlsConfig(factory=FACTORY, **given)


def shake_hands(bookie: ssl.SSLContext, client: ssl.SSLContext) -> tuple[str, bytes | None]:
    """Do a handshake in memory; return the version and the client's certificate."""
    to_bookie, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    theirs = bookie.wrap_bio(to_bookie, to_client, server_side=True)
    mine = client.wrap_bio(to_client, to_bookie, server_hostname=HOST)
    pending = [mine, theirs]
    for _ in range(10):
        for each in list(pending):
            try:
                each.do_handshake()
            except ssl.SSLWantReadError:
                continue
            pending.remove(each)
    assert not pending
    return str(mine.version()), theirs.getpeercert(binary_form=True)


def test_every_form_of_the_files(authority: Authority, tmp_path: Path) -> None:
    pem = authority.store("forms", HOST)
    key, chain = tmp_path / "key.pem", tmp_path / "chain.pem"
    text = pem.read_text()
    at = text.index("-----BEGIN CERTIFICATE-----")
    key.write_text(text[:at])
    chain.write_text(text[at:])
    password = tmp_path / "password"
    password.write_text(" sesame\n")
    trusted = {"truststore": authority.certificate}
    client = make_context(config(**trusted), is_bookie=False)
    for given in (
        {"keystore": pem},
        {"keystore": key, "certificate_path": chain},
        {
            "keystore": authority.pkcs12("forms12", "sesame", HOST),
            "keystore_type": "PKCS12",
            "keystore_password_path": password,
        },
    ):
        version, shown = shake_hands(make_context(config(**given), is_bookie=True), client)
        assert (version, shown) == ("TLSv1.3", None)
        mutual = config(**given, **trusted, client_authentication=True)
        both = [make_context(mutual, is_bookie=side) for side in (True, False)]
        _, shown = shake_hands(*both)
        assert shown is not None
    old = config(**trusted, enabled_protocols=("TLSv1.2",))
    bookie = make_context(config(keystore=pem), is_bookie=True)
    assert shake_hands(bookie, make_context(old, is_bookie=False))[0] == "TLSv1.2"


@pytest.mark.parametrize(
    ("is_bookie", "given", "words"),
    [
        (True, {}, "tlsKeyStore: a bookie that speaks TLS needs a key"),
        (True, {"keystore": "KEYS", "client_authentication": True}, "tlsTrustStore: set the"),
        (False, {}, "tlsTrustStore: set the authorities"),
        (False, {"client_authentication": True}, "tlsClientAuthentication: set tlsKeyStore"),
        (True, {"keystore": Path("/nowhere")}, "tlsKeyStore=/nowhere: No such file"),
        (False, {"truststore": Path("/nowhere")}, "tlsTrustStore=/nowhere: No such file"),
        (True, {"keystore": "TEXT"}, "tlsKeyStore=.*: the private key: it cannot be read"),
        (False, {"truststore": "TEXT"}, "tlsTrustStore=.*: it has no certificate"),
        (
            True,
            {"keystore": "KEYS", "keystore_password_path": "TEXT"},
            "tlsKeyStore=.*: it has no password",
        ),
        (
            True,
            {"keystore": "KEYS", "keystore_password_path": Path("/nowhere")},
            "tlsKeyStorePasswordPath=/nowhere: No such file",
        ),
    ],
)
def test_what_cannot_be_used(
    authority: Authority, tmp_path: Path, is_bookie: bool, given: dict[str, Any], words: str
) -> None:
    text = tmp_path / "text"
    text.write_text("sesame")
    files = {"KEYS": authority.store("keys"), "TEXT": text}
    given = {name: files.get(value, value) if isinstance(value, str) else value
             for name, value in given.items()}  # fmt: skip
    with pytest.raises(InvalidKeys, match=words) as refused:
        make_context(config(**given), is_bookie=is_bookie)
    assert "sesame" not in str(refused.value)
    assert "ssl." not in str(refused.value), "the names are BookKeeper's"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"tlsKeyStoreType": "JKS"}, "keytool -importkeystore .* -deststoretype PKCS12"),
        ({"tlsTrustStoreType": "JKS"}, "tlsTrustStoreType: JKS is not read"),
        ({"tlsKeyStoreType": "DER"}, "expected one of PEM, PKCS12, JKS"),
        ({"tlsProviderFactoryClass": "x"}, "tlsProviderFactoryClass: org.apache.bookkeeper.tls"),
        ({"tlsEnabledProtocols": ""}, "at least one is needed"),
        ({"tlsEnabledProtocols": "TLSv1"}, "tlsEnabledProtocols"),
        ({"tlsCertFilesRefreshDurationSeconds": "-1"}, "tlsCertFilesRefreshDurationSeconds"),
    ],
)
def test_settings_that_are_refused(given: dict[str, str], words: str) -> None:
    assignments = [Assignment(key, value, "test") for key, value in given.items()]
    with pytest.raises(ConfigError, match=words):
        load(BookKeeperTlsConfig, assignments)


def test_files_that_change(authority: Authority, tmp_path: Path, caplog: Any) -> None:
    store = tmp_path / "bookie.pem"
    first, second = authority.store("first", HOST), authority.store("second", HOST)
    store.write_bytes(first.read_bytes())

    def shown(tls: ssl.SSLContext) -> str:
        to_bookie, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
        context = make_context(config(truststore=authority.certificate), is_bookie=False)
        mine = context.wrap_bio(to_client, to_bookie, server_hostname=HOST)
        theirs = tls.wrap_bio(to_bookie, to_client, server_side=True)
        with pytest.raises(ssl.SSLWantReadError):
            mine.do_handshake()
        with pytest.raises(ssl.SSLWantReadError):
            theirs.do_handshake()
        mine.do_handshake()
        return fingerprint(mine.getpeercert(binary_form=True) or b"")

    async def story() -> None:
        tls = BookKeeperTls(config(keystore=store, refresh_s=60), is_bookie=True)
        assert shown(await tls.context(100.0)) == fingerprint_of(first)
        store.write_bytes(second.read_bytes())
        assert shown(await tls.context(159.0)) == fingerprint_of(first), "not looked at yet"
        assert shown(await tls.context(160.0)) == fingerprint_of(second)
        store.write_text("no key")
        assert shown(await tls.context(220.0)) == fingerprint_of(second)
        assert "bookkeeper_tls_not_reloaded" in caplog.text
        store.write_bytes(first.read_bytes())
        assert shown(await tls.context(280.0)) == fingerprint_of(first)
        await tls.close()
        once = BookKeeperTls(config(keystore=store, refresh_s=0), is_bookie=True)
        store.write_bytes(second.read_bytes())
        assert shown(await once.context(1e6)) == fingerprint_of(first)
        await once.close()

    asyncio.run(story())
