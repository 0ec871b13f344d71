"""Settings of who may call a proxy."""

from dataclasses import dataclass, field

from tailrace.broker.authorization.config import AuthorizationConfig
from tailrace.core.access.oauth.config import OAuthConfig
from tailrace.core.access.principals import PrincipalRules
from tailrace.core.runtime.config import NotNegative, setting
from tailrace.core.security.tls_config import TlsConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyAccessConfig:
    """What a proxy's process goes by, under Kafka's names; the same as the brokers' have."""

    tls: TlsConfig = field(default_factory=TlsConfig)
    principal_rules: str = setting(
        "ssl.principal.mapping.rules",
        "DEFAULT",
        "What is made of the name in a client's certificate: a list of "
        "RULE:pattern/replacement/[LU] and DEFAULT. The first that matches counts.",
    )
    failed_delay_ms: NotNegative = setting(
        "connection.failed.authentication.delay.ms",
        100,
        "How long a failed authentication is not answered.",
    )
    oauth: OAuthConfig = field(default_factory=OAuthConfig)
    authorization: AuthorizationConfig = field(default_factory=AuthorizationConfig)

    def __post_init__(self) -> None:
        PrincipalRules(self.principal_rules)
