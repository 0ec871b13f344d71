"""Who may come into a bookie, by BookKeeper's names."""

from dataclasses import dataclass, field

from tailrace.core.runtime.config import setting
from tailrace.core.security.bookkeeper_tls_config import BookKeeperTlsConfig


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

    @property
    def is_needed(self) -> bool:
        """Whether connections begin with more than a request."""
        return self.tls.is_enabled

    @property
    def needs_tls(self) -> bool:
        """Whether nothing is served in clear."""
        return self.tls.is_enabled and not self.allows_plaintext
