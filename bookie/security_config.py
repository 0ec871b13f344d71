"""Which clients a bookie lets in, by BookKeeper's names."""

from dataclasses import dataclass, field
from typing import Final

from tailrace.core.runtime.config import setting
from tailrace.core.security.bookkeeper_tls_config import BookKeeperTlsConfig
from tailrace.core.security.jaas_config import JaasConfig

SASL_FACTORY: Final = "org.apache.bookkeeper.sasl.SASLBookieAuthProviderFactory"
ROLES_FACTORY: Final = "org.apache.bookkeeper.tls.BookieAuthZFactory"


@dataclass(frozen=True, slots=True, kw_only=True)
class BookieSecurity:
    """Security of a bookie that listens."""

    tls: BookKeeperTlsConfig = field(default_factory=BookKeeperTlsConfig)
    allows_plaintext: bool = setting(
        "tlsPlaintextAllowed",
        False,
        "With tlsProviderFactoryClass: serve clients that do not begin with START_TLS as well, as "
        "Java's bookie always does; for the time in which a cluster changes over to TLS.",
    )
    factory: str = setting(
        "bookieAuthProviderFactoryClass",
        "",
        f"{SASL_FACTORY}: clients authenticate by SASL's DIGEST-MD5. {ROLES_FACTORY}: by a role "
        "in the certificate that they show. Empty: not at all.",
    )
    jaas: JaasConfig = field(default_factory=JaasConfig)
    section: str = setting(
        "saslJaasBookieSectionName",
        "Bookie",
        "Section of saslJaasConfigFile whose user_NAME=PASSWORD are the clients of this bookie.",
    )
    allowed_ids: str = setting(
        "saslJaasClientAllowedIds",
        ".*bookkeeper.*",
        "Regular expression for the names of clients that may come in, whatever users there are.",
    )
    roles: tuple[str, ...] = setting(
        "authorizedRoles",
        (),
        "Roles of clients that may come in. A certificate has its role in OU: 0:ROLE.",
    )

    def __post_init__(self) -> None:
        if self.factory not in ("", SASL_FACTORY, ROLES_FACTORY):
            raise ValueError(
                f"bookieAuthProviderFactoryClass: {SASL_FACTORY}, {ROLES_FACTORY} or nothing"
            )
        if self.factory == SASL_FACTORY and self.jaas.file is None:
            raise ValueError("bookieAuthProviderFactoryClass: set saslJaasConfigFile too")
        if self.factory == ROLES_FACTORY and not self.roles:
            raise ValueError("bookieAuthProviderFactoryClass: set authorizedRoles too")
        if self.factory == ROLES_FACTORY and not (
            self.tls.is_enabled and self.tls.client_authentication
        ):
            raise ValueError(
                "bookieAuthProviderFactoryClass: roles are in certificates: set "
                "tlsProviderFactoryClass and tlsClientAuthentication too"
            )

    @property
    def is_needed(self) -> bool:
        """Whether connections begin with more than a request."""
        return self.tls.is_enabled or bool(self.factory)

    @property
    def needs_tls(self) -> bool:
        """Whether nothing is served in clear."""
        return self.tls.is_enabled and not self.allows_plaintext
