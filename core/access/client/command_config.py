"""The file of `--command-config`: a client's properties, as every client here takes them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tailrace.core.access.client.java_properties import InvalidProperties, parse_properties
from tailrace.core.access.client.librdkafka import CERTIFICATE_FILES, as_kafka
from tailrace.core.runtime.config import ConfigError

FILE_BYTES_MAX: Final = 1024 * 1024
"""A longer file is not read."""

_STORES: Final = ("ssl.keystore", "ssl.truststore")
_ASN1: Final = b"\x30"
"""The first byte of a PKCS12 file; PEM is text."""
_JKS: Final = b"\xfe\xed\xfe\xed"


def read_command_config(file: Path) -> dict[str, str]:
    """Return a file's properties by Kafka's names, librdkafka's translated.

    Blocks. Errors: ConfigError, which shows no value of the file.
    """
    try:
        with file.open("rb") as opened:
            data = opened.read(FILE_BYTES_MAX + 1)
        text = data.decode()
    except OSError as error:
        raise ConfigError(f"{file}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"{file}: it is not UTF-8; \\u00e4 is a character by its number, for Java too"
        ) from error
    if len(data) > FILE_BYTES_MAX:
        raise ConfigError(f"{file}: more than {FILE_BYTES_MAX} bytes")
    try:
        return as_kafka(parse_properties(text))
    except (InvalidProperties, ConfigError) as error:
        raise ConfigError(f"{file}: {error}") from error


def client_settings(given: Mapping[str, str] | Path | None) -> dict[str, str]:
    """Return properties, or those of a file, by Kafka's names; stores as every client takes them.

    Blocks. Errors: ConfigError, which shows no value.
    """
    if given is None:
        return {}
    properties = read_command_config(given) if isinstance(given, Path) else as_kafka(given)
    return with_stores_read(with_certificate_read(properties))


def java_settings(given: Mapping[str, str] | Path) -> dict[str, str]:
    """Return properties, or those of a file, as clients in Java take them.

    Java does not see that a store is PEM: its type has to say so. Blocks. Errors: ConfigError.
    """
    properties = read_command_config(given) if isinstance(given, Path) else as_kafka(given)
    found = with_certificate_read(properties)
    for store, text in zip(_STORES, ("key", "certificates"), strict=True):
        location = found.get(f"{store}.location")
        is_pem = f"{store}.{text}" in found
        if location and f"{store}.type" not in found:
            is_pem = not _begin(Path(location), store).startswith((_ASN1, _JKS))
        if is_pem:
            found[f"{store}.type"] = "PEM"
    return found


def with_stores_read(properties: Mapping[str, str]) -> dict[str, str]:
    """Return properties whose stores every client can use.

    A store without a type has the one of its file: Java's default reads PKCS12 too. Certificates of
    authorities in PKCS12 become PEM in the properties, since librdkafka reads no others. Blocks.
    Errors: ConfigError.
    """
    found = dict(properties)
    for store in _STORES:
        location = found.get(f"{store}.location")
        if location:
            kind = _kind_of(found.get(f"{store}.type", "").upper(), Path(location), store)
            found[f"{store}.type"] = kind
    if found.get("ssl.truststore.type") == "PKCS12":
        found["ssl.truststore.certificates"] = _authorities(found)
        for part in ("location", "type", "password"):
            found.pop(f"ssl.truststore.{part}", None)
    return found


def with_certificate_read(properties: Mapping[str, str]) -> dict[str, str]:
    """Return properties in which librdkafka's two files are texts, as Kafka's clients take them.

    Blocks. Errors: ConfigError.
    """
    files = {key: properties[key] for key in CERTIFICATE_FILES if key in properties}
    if not files:
        return {**properties}
    chain, key = (_text(Path(files[each]), each) for each in CERTIFICATE_FILES)
    others = {key: value for key, value in properties.items() if key not in files}
    return {**others, "ssl.keystore.certificate.chain": chain, "ssl.keystore.key": key}


def _text(file: Path, place: str) -> str:
    try:
        with file.open("rb") as opened:
            return opened.read(FILE_BYTES_MAX).decode("ascii", errors="replace")
    except OSError as error:
        raise ConfigError(f"{place}={file}: {error.strerror}") from error


def _kind_of(given: str, file: Path, store: str) -> str:
    begin = _begin(file, store)
    if begin == _JKS or given == "JKS":
        raise ConfigError(
            f"{store}.location={file}: JKS is not read: keytool -importkeystore -deststoretype "
            "PKCS12 converts it"
        )
    return given or ("PKCS12" if begin.startswith(_ASN1) else "PEM")


def _begin(file: Path, store: str) -> bytes:
    try:
        with file.open("rb") as opened:
            return opened.read(len(_JKS))
    except OSError as error:
        raise ConfigError(f"{store}.location={file}: {error.strerror}") from error


def _authorities(properties: Mapping[str, str]) -> str:
    """Return the certificates of a PKCS12 trust store as PEM."""
    from tailrace.core.access.client.config import client_config
    from tailrace.core.security.keys import read_trusted  # 100 ms, for those who need it

    trust = {key: value for key, value in properties.items() if key.startswith("ssl.truststore.")}
    return read_trusted(client_config(trust, "ssl.truststore").tls) or ""
