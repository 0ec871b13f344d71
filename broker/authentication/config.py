"""Settings of SASL, by Kafka's names."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from tailrace.core.access.oauth.config import OAuthConfig
from tailrace.core.access.sasl.oauthbearer import OAUTHBEARER
from tailrace.core.runtime.config import AtLeastOne, NotNegative, setting

SERVED: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN", OAUTHBEARER)


@dataclass(frozen=True, slots=True, kw_only=True)
class SaslConfig:
    """How clients of SASL listeners prove who they are."""

    mechanisms: tuple[str, ...] = setting(
        "sasl.enabled.mechanisms",
        ("SCRAM-SHA-256", "SCRAM-SHA-512"),
        f"The SASL mechanisms of all SASL listeners: {', '.join(SERVED)}. PLAIN sends the password "
        "as it is: only over TLS.",
    )
    failed_delay_ms: NotNegative = setting(
        "connection.failed.authentication.delay.ms",
        100,
        "How long a failed authentication is not answered; then its connection is closed.",
    )
    reauth_ms_max: NotNegative = setting(
        "connections.max.reauth.ms",
        0,
        "How long a client is known before it has to authenticate again on its connection, which "
        "is closed at its next request otherwise; 0: as long as the connection.",
    )
    receive_bytes_max: AtLeastOne = setting(
        "sasl.server.max.receive.size",
        524_288,
        "Largest request of a client that is not authenticated yet. Unit: bytes.",
    )

    oauth: OAuthConfig = field(default_factory=OAuthConfig)

    def __post_init__(self) -> None:
        name = "sasl.enabled.mechanisms"
        for each in self.mechanisms:
            if each == "GSSAPI":
                raise ValueError(f"{name}: GSSAPI (Kerberos) is not served; {_choice()}")
            if each not in SERVED:
                raise ValueError(f"{name}: {each} is not a mechanism; {_choice()}")
        if len(set(self.mechanisms)) < len(self.mechanisms):
            raise ValueError(f"{name}: a mechanism is there twice")
        if not self.mechanisms:
            raise ValueError(f"{name}: at least one is needed; {_choice()}")
        if OAUTHBEARER in self.mechanisms and not self.oauth.jwks_url:
            raise ValueError(
                f"{name}: OAUTHBEARER needs the keys of the tokens' issuer: set "
                "sasl.oauthbearer.jwks.endpoint.url"
            )


class SaslConfigs(Protocol):
    """The settings of all listeners, and what each has."""

    @property
    def sasl(self) -> SaslConfig:
        """Those without a listener's name."""

    @property
    def sasl_by_listener(self) -> Mapping[str, SaslConfig]:
        """Those that are in force, by listener."""


def _choice() -> str:
    return f"{', '.join(SERVED)} are"
