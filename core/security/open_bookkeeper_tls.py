"""TLS between bookies and their clients, loaded only by processes that speak it."""

from typing import TYPE_CHECKING

from tailrace.core.security.bookkeeper_tls_config import BookKeeperTlsConfig

if TYPE_CHECKING:
    from tailrace.core.security.bookkeeper_tls import BookKeeperTls


def open_tls(config: BookKeeperTlsConfig, *, is_bookie: bool) -> "BookKeeperTls | None":
    """Read keys and certificates; None: there is no TLS.

    Errors: InvalidKeys. Cost: blocks, 50 ms with PKCS12.
    """
    if not config.is_enabled:
        return None
    from tailrace.core.security.bookkeeper_tls import BookKeeperTls  # cryptography is large

    return BookKeeperTls(config, is_bookie=is_bookie)
