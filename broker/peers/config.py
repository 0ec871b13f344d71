"""How this broker gets in to other brokers, by Kafka's names.

The trust store, the key store and the versions of TLS are those of the listeners (`ssl.*`).
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tailrace.core.runtime.config import Secret, setting
from tailrace.core.security.tls_config import Identification

if TYPE_CHECKING:
    from tailrace.core.access.client.login import Login


@dataclass(frozen=True, slots=True, kw_only=True)
class InterBrokerConfig:
    """The client of other brokers that a broker is."""

    mechanism: str = setting(
        "sasl.mechanism.inter.broker.protocol",
        "SCRAM-SHA-256",
        "How this broker logs in to others, where their listener asks for SASL: PLAIN, "
        "SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER.",
    )
    jaas: Secret = setting(
        "sasl.jaas.config",
        Secret(""),
        "As whom it logs in to them, in Kafka's form: MODULE required username=... password=...;",
    )
    token_url: str = setting(
        "sasl.oauthbearer.token.endpoint.url",
        "",
        "With OAUTHBEARER: file:///PATH of a file with a token.",
    )
    identification: Identification = setting(
        "ssl.endpoint.identification.algorithm",
        "https",
        "https: the address that another broker is reached at must be in its certificate; empty: "
        "any certificate of a trusted authority will do.",
    )

    def login(self, jaas: Secret | None = None) -> "Login":
        """Return as whom this broker logs in to others. Errors: ConfigError.

        `jaas`: what the listener has of its own, which goes first.
        """
        from tailrace.core.access.client.login import login_of  # for those who need it

        return login_of(
            self.mechanism,
            self.jaas if jaas is None else jaas,
            self.token_url,
            "sasl.mechanism.inter.broker.protocol",
        )
