"""Kafka's settings of clients and librdkafka's, one into the other. Pure.

| Kafka's clients (Java) | librdkafka |
|---|---|
| `security.protocol`, `sasl.mechanism`, `ssl.key.password`, `ssl.keystore.password` | the same |
| `sasl.jaas.config` | `sasl.username`, `sasl.password` |
| `ssl.truststore.location`, `.certificates` | `ssl.ca.location`, `ssl.ca.pem` |
| `ssl.keystore.location` of type PKCS12 | the same |
| `ssl.keystore.location` of type PEM | `ssl.certificate.location`, `ssl.key.location` |
| `ssl.keystore.certificate.chain`, `ssl.keystore.key` | `ssl.certificate.pem`, `ssl.key.pem` |
| `ssl.cipher.suites` by Java's names | the same by OpenSSL's |
| `ssl.endpoint.identification.algorithm`: empty | the same: `none` |
"""

from collections.abc import Mapping
from typing import Final

from tailrace.core.access.client.config import KEYS
from tailrace.core.access.client.login import login_of, module_of
from tailrace.core.runtime.config import ConfigError, Secret
from tailrace.core.security.cipher_suites import cipher_suites

_RENAMED: Final = {
    "sasl.mechanisms": "sasl.mechanism",
    "ssl.ca.location": "ssl.truststore.location",
    "ssl.ca.pem": "ssl.truststore.certificates",
    "ssl.certificate.pem": "ssl.keystore.certificate.chain",
    "ssl.key.pem": "ssl.keystore.key",
}
"""librdkafka's name -> Kafka's, where the values are the same."""
VERIFICATION: Final = "enable.ssl.certificate.verification"
_IDENTIFICATION: Final = "ssl.endpoint.identification.algorithm"
_USER: Final = ("sasl.username", "sasl.password")
CERTIFICATE_FILES: Final = ("ssl.certificate.location", "ssl.key.location")
"""Each may be a file of its own; Kafka's clients have one for both."""
SECURITY_KEYS: Final = frozenset({*KEYS, *_RENAMED, *_USER, *CERTIFICATE_FILES, VERIFICATION})
"""Names of either that say how a client gets in."""
_LEFT_OUT: Final = frozenset({"bootstrap.servers"})
"""What a command has an option for."""


def as_kafka(properties: Mapping[str, str]) -> dict[str, str]:
    """Return properties of either kind by Kafka's names. Errors: ConfigError."""
    found = {key: value for key, value in properties.items() if key not in SECURITY_KEYS - KEYS}
    found |= {_RENAMED[key]: value for key, value in properties.items() if key in _RENAMED}
    if properties.get(VERIFICATION, "true").lower() != "true":
        raise ConfigError(f"{VERIFICATION}: certificates are always verified here")
    if found.get(_IDENTIFICATION, "").lower() == "none":
        found[_IDENTIFICATION] = ""
    found |= _certificate_of(properties)
    user, password = (properties.get(each, "") for each in _USER)
    if user or password:
        module = module_of(found.get("sasl.mechanism", ""))
        found["sasl.jaas.config"] = (
            f"{module} required username={_quoted(user)} password={_quoted(password)};"
        )
    return found


def _certificate_of(properties: Mapping[str, str]) -> dict[str, str]:
    """One file is a key store; two keep their names, until they are read."""
    given = {key: properties[key] for key in CERTIFICATE_FILES if properties.get(key)}
    if len(given) == 1:
        raise ConfigError(f"{' and '.join(CERTIFICATE_FILES)} belong together; set both")
    if len(set(given.values())) == 1:
        place = given[CERTIFICATE_FILES[0]]
        return {"ssl.keystore.location": place, "ssl.keystore.type": "PEM"}
    return given


def as_librdkafka(properties: Mapping[str, str]) -> dict[str, str]:
    """Return properties of Kafka's names by librdkafka's; those of no security as they are.

    Errors: ConfigError for what librdkafka cannot do.
    """
    found = {key: value for key, value in properties.items() if key not in KEYS | _LEFT_OUT}
    security = {key: value for key, value in properties.items() if key in KEYS and value}
    _refuse(security)
    for key in ("security.protocol", "sasl.mechanism", "ssl.key.password"):
        if key in security:
            found[key] = security[key]
    if "ssl.cipher.suites" in security:
        found["ssl.cipher.suites"] = _suites(security["ssl.cipher.suites"])
    if "sasl.jaas.config" in security and "sasl.mechanism" in security:
        found |= _user_of(security)
    found |= _trusted(security) | _shown(security)
    if _IDENTIFICATION in properties:
        found[_IDENTIFICATION] = properties[_IDENTIFICATION] or "none"
    return found


def _refuse(security: Mapping[str, str]) -> None:
    if security.get("ssl.truststore.type", "PEM") != "PEM":
        raise ConfigError("ssl.truststore.type: librdkafka reads authorities as PEM alone")
    if "ssl.enabled.protocols" in security:
        raise ConfigError(
            "ssl.enabled.protocols: librdkafka speaks every version that the broker does; let the "
            "broker choose, and remove it"
        )


def _suites(names: str) -> str:
    """Return suites by OpenSSL's names."""
    try:
        found = cipher_suites([each.strip() for each in names.split(",")]).openssl
    except ValueError as error:
        raise ConfigError(str(error)) from error
    if not found:
        raise ConfigError("ssl.cipher.suites: librdkafka limits those of TLS 1.2 alone")
    return found


def _user_of(security: Mapping[str, str]) -> dict[str, str]:
    mechanism = security["sasl.mechanism"]
    jaas = Secret(security["sasl.jaas.config"])
    if mechanism == "OAUTHBEARER":
        return {}
    login = login_of(mechanism, jaas, "")
    if login.is_token:
        raise ConfigError("sasl.jaas.config: librdkafka does not log in with delegation tokens")
    return {"sasl.username": login.user, "sasl.password": login.password.reveal()}


def _trusted(security: Mapping[str, str]) -> dict[str, str]:
    names = {
        "ssl.truststore.location": "ssl.ca.location",
        "ssl.truststore.certificates": "ssl.ca.pem",
    }
    return {name: security[key] for key, name in names.items() if key in security}


def _shown(security: Mapping[str, str]) -> dict[str, str]:
    if "ssl.keystore.key" in security:
        return {
            "ssl.certificate.pem": security.get("ssl.keystore.certificate.chain", ""),
            "ssl.key.pem": security["ssl.keystore.key"],
        }
    if "ssl.keystore.location" not in security:
        return {}
    place = security["ssl.keystore.location"]
    if security.get("ssl.keystore.type", "PEM") == "PEM":
        return dict.fromkeys(CERTIFICATE_FILES, place)
    password = security.get("ssl.keystore.password", "")
    return {"ssl.keystore.location": place, "ssl.keystore.password": password}


def _quoted(text: str) -> str:
    """Return a text as a JAAS value."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + escaped.replace("\n", "\\n").replace("\r", "\\r") + '"'
