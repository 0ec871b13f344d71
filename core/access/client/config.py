"""The settings by which a client of Kafka's gets in, under the names of Kafka's clients."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from tailrace.core.access.client.login import Login, login_of
from tailrace.core.runtime.config import (
    Assignment,
    Secret,
    load,
    setting,
    settings_of,
)
from tailrace.core.security.tls_config import TlsClientConfig

Protocol: TypeAlias = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientConfig:
    """How a client gets in."""

    protocol: Protocol = setting(
        "security.protocol",
        "PLAINTEXT",
        "How the broker's listener speaks: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL.",
    )
    mechanism: str = setting(
        "sasl.mechanism", "", "PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER."
    )
    jaas: Secret = setting(
        "sasl.jaas.config",
        Secret(""),
        "The user and its password, in Kafka's form: "
        'MODULE required username="..." password="...";',
    )
    token_url: str = setting(
        "sasl.oauthbearer.token.endpoint.url",
        "",
        "With OAUTHBEARER: file:///PATH of a file with a token.",
    )
    tls: TlsClientConfig = field(default_factory=TlsClientConfig)

    def __post_init__(self) -> None:
        if self.uses_sasl:
            self.login()

    @property
    def uses_tls(self) -> bool:
        """Whether the connection is encrypted."""
        return self.protocol in ("SSL", "SASL_SSL")

    @property
    def uses_sasl(self) -> bool:
        """Whether the client logs in."""
        return self.protocol in ("SASL_PLAINTEXT", "SASL_SSL")

    def login(self) -> Login | None:
        """Return as whom the client logs in; None: it does not. Errors: ConfigError."""
        if not self.uses_sasl:
            return None
        return login_of(self.mechanism, self.jaas, self.token_url)


KEYS: Final = frozenset(each.key for each in settings_of(ClientConfig))


def client_config(properties: Mapping[str, str], origin: str) -> ClientConfig:
    """Return the settings among a client's properties. `origin`: the file, for errors.

    Errors: ConfigError, which shows no secret.
    """
    given = [
        Assignment(key, _kept(key, value), origin)
        for key, value in properties.items()
        if key in KEYS
    ]
    return load(ClientConfig, given).config


def _kept(key: str, value: str) -> str:
    """Return a value as it is written here: Kafka's clients take names in either case."""
    is_name = key in ("security.protocol", "ssl.keystore.type", "ssl.truststore.type")
    return value.upper() if is_name else value
