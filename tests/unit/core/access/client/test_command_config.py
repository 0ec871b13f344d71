"""Files of `--command-config`: every form of a store is found out, and errors show no value."""

from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import NoEncryption, pkcs12
from cryptography.x509 import load_pem_x509_certificate

from tailrace.core.access.client.command_config import (
    FILE_BYTES_MAX,
    read_command_config,
    with_certificate_read,
    with_stores_read,
)
from tailrace.core.access.client.config import client_config
from tailrace.core.runtime.config import ConfigError
from tailrace.core.security.keys import read_key_pair, read_trusted
from tests.certificates import Authority


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("keys"))


def test_names_of_both_kinds_stand_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("security.protocol = SSL\nssl.ca.location=ca.pem\nclient.id=me")
    assert read_command_config(file) == {
        "security.protocol": "SSL",
        "ssl.truststore.location": "ca.pem",
        "client.id": "me",
    }


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (None, "No such file"),
        (b"\xff", "not UTF-8"),
        (b"#" * (FILE_BYTES_MAX + 1), "more than 1048576 bytes"),
        (b"\nsasl.password=sesame\\u0", "line 2"),
        (b"enable.ssl.certificate.verification=false", "always verified"),
    ],
)
def test_what_is_not_such_a_file_is_named(tmp_path: Path, data: bytes | None, words: str) -> None:
    file = tmp_path / "client.properties"
    if data is not None:
        file.write_bytes(data)
    with pytest.raises(ConfigError, match=f"{file}: .*{words}") as refused:
        read_command_config(file)
    assert "sesame" not in str(refused.value)


def test_a_store_without_a_type_has_that_of_its_file(authority: Authority) -> None:
    twelve = authority.pkcs12("twelve", "sesame")
    pem = authority.directory / "twelve.pem"
    pairs = []
    for store, password in ((pem, ""), (twelve, "sesame")):
        given = {"ssl.keystore.location": str(store), "ssl.keystore.password": password}
        pairs.append(read_key_pair(client_config(with_stores_read(given), "here").tls))
    assert pairs[0] == pairs[1]


def test_authorities_in_pkcs12_become_pem(authority: Authority, tmp_path: Path) -> None:
    certificate = load_pem_x509_certificate(authority.certificate.read_bytes())
    store = tmp_path / "trust"
    store.write_bytes(
        pkcs12.serialize_key_and_certificates(b"ca", None, None, [certificate], NoEncryption())
    )
    found = with_stores_read({"ssl.truststore.location": str(store), "client.id": "me"})
    assert set(found) == {"client.id", "ssl.truststore.certificates"}
    trusted = read_trusted(client_config(found, "here").tls)
    assert trusted is not None
    assert load_pem_x509_certificate(trusted.encode()) == certificate


@pytest.mark.parametrize(("begin", "kind"), [(b"\xfe\xed\xfe\xed\0", ""), (b"--", "JKS")])
def test_jks_is_refused_with_the_remedy(tmp_path: Path, begin: bytes, kind: str) -> None:
    store = tmp_path / "store.jks"
    store.write_bytes(begin)
    with pytest.raises(ConfigError, match="keytool -importkeystore"):
        with_stores_read({"ssl.truststore.location": str(store), "ssl.truststore.type": kind})
    with pytest.raises(ConfigError, match="No such file"):
        with_stores_read({"ssl.keystore.location": str(tmp_path / "none")})


def test_a_key_and_its_certificate_may_lie_in_two_files(
    authority: Authority, tmp_path: Path
) -> None:
    both = authority.store("both").read_text()
    key, mark, chain = both.partition("-----BEGIN CERTIFICATE")
    files = {"ssl.key.location": tmp_path / "key", "ssl.certificate.location": tmp_path / "chain"}
    for name, text in zip(files, (key, mark + chain), strict=True):
        files[name].write_text(text)
    found = with_certificate_read({name: str(file) for name, file in files.items()})
    pair = read_key_pair(client_config(found, "here").tls)
    whole = {"ssl.keystore.location": str(authority.directory / "both.pem")}
    assert pair == read_key_pair(client_config(whole, "here").tls)
    files["ssl.key.location"].unlink()
    with pytest.raises(ConfigError, match=r"ssl.key.location=.*No such file"):
        with_certificate_read({name: str(file) for name, file in files.items()})
