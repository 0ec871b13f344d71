"""How clients of bookies show who they are, and check who bookies are."""

from dataclasses import dataclass, field

from tailrace.core.security.bookkeeper_tls_config import BookKeeperTlsConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class BookieClientSecurity:
    """Security on the way to bookies."""

    tls: BookKeeperTlsConfig = field(default_factory=BookKeeperTlsConfig)
