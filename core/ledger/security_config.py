"""How clients and bookies prove to each other what they are, by BookKeeper's names."""

from dataclasses import dataclass, field
from typing import Final

from tailrace.core.runtime.config import setting
from tailrace.core.security.bookkeeper_tls_config import BookKeeperTlsConfig
from tailrace.core.security.jaas_config import JaasConfig

SASL_FACTORY: Final = "org.apache.bookkeeper.sasl.SASLClientProviderFactory"


@dataclass(frozen=True, slots=True, kw_only=True)
class BookieClientAuth:
    """Whether, and as which user, clients of bookies authenticate."""

    factory: str = setting(
        "clientAuthProviderFactoryClass",
        "",
        f"{SASL_FACTORY}: authenticate to bookies by SASL's DIGEST-MD5. Empty: not at all.",
    )
    section: str = setting(
        "saslJaasClientSectionName",
        "BookKeeper",
        "Section of saslJaasConfigFile with username and password of this client.",
    )

    def __post_init__(self) -> None:
        if self.factory not in ("", SASL_FACTORY):
            raise ValueError(f"clientAuthProviderFactoryClass: {SASL_FACTORY} or nothing")


@dataclass(frozen=True, slots=True, kw_only=True)
class BookieClientSecurity:
    """Security on the way to bookies."""

    tls: BookKeeperTlsConfig = field(default_factory=BookKeeperTlsConfig)
    jaas: JaasConfig = field(default_factory=JaasConfig)
    auth: BookieClientAuth = field(default_factory=BookieClientAuth)

    def __post_init__(self) -> None:
        if self.auth.factory and self.jaas.file is None:
            raise ValueError("clientAuthProviderFactoryClass: set saslJaasConfigFile too")
