"""The TLS side of a client: by what it checks servers, and the certificate that it may show.

Kafka's settings of clients (SslConfigs): without a trust store the system's authorities are
trusted; `ssl.endpoint.identification.algorithm` says whether a server's name must be in its
certificate. A certificate that no authority has signed is never accepted.
"""

import logging
import ssl
from dataclasses import dataclass
from functools import partial

from tailrace.core.runtime.metrics import counter
from tailrace.core.security.contexts import load_stores
from tailrace.core.security.followed_files import FollowedFiles
from tailrace.core.security.tls_config import Identification, TlsStores

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class TlsClientMetrics:
    """Numbers of the certificate of one client."""

    reloads_total: int = counter("times that changed files were taken into use")
    reload_failures_total: int = counter("times that changed files could not be used")


class TlsClient:
    """What new connections are shaken hands with. All calls come from the loop."""

    def __init__(self, stores: TlsStores, identification: Identification) -> None:
        """Read everything once. Blocks, 50 ms with PKCS12. Errors: InvalidKeys."""
        self.metrics = TlsClientMetrics()
        make = partial(client_context, identification=identification)
        self._followed = FollowedFiles("tls_client", stores, make, self._on_changed)

    @property
    def context(self) -> ssl.SSLContext:
        """What handshakes that begin now go by."""
        return self._followed.current

    def start(self) -> None:
        """Follow the files."""
        self._followed.start()

    def configure(self, stores: TlsStores) -> None:
        """Take other files or settings into use, at the next check."""
        self._followed.configure(stores)

    async def close(self) -> None:
        """Follow them no more. Idempotent."""
        await self._followed.close()

    def _on_changed(self, made: ssl.SSLContext | None) -> None:
        if made is None:
            self.metrics.reload_failures_total += 1
        else:
            self.metrics.reloads_total += 1
            logger.info("tls_client_reloaded")


def client_context(stores: TlsStores, identification: Identification) -> ssl.SSLContext:
    """Return what a client shakes hands with. Blocks, 50 ms with PKCS12. Errors: InvalidKeys."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # verifies certificates and names
    context.check_hostname = identification == "https"
    load_stores(context, stores)
    if not stores.has_trust:
        context.load_default_certs()
    return context
