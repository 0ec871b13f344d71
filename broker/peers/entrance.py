"""How connections to other brokers get in: TLS, then SASL, as their listener asks for."""

import ssl
from typing import TYPE_CHECKING, Final, Protocol

from typing_extensions import override

from tailrace.broker.listeners import SecurityProtocol
from tailrace.broker.peers.config import InterBrokerConfig
from tailrace.core.runtime.metrics import Metrics
from tailrace.core.security.tls_config import TlsStores

if TYPE_CHECKING:
    from tailrace.core.security.tls_client import TlsClient


class Entrance(Protocol):
    """Of all connections to other brokers. All calls come from the loop."""

    @property
    def context(self) -> ssl.SSLContext | None:
        """What handshakes that begin now go by; None: without TLS."""

    def start(self, metrics: Metrics) -> None:
        """Follow the files of keys."""

    async def close(self) -> None:
        """Follow them no more. Idempotent."""


class Open(Entrance):
    """Other brokers speak without TLS and ask for no user."""

    @property
    @override
    def context(self) -> ssl.SSLContext | None:
        """None."""
        return None

    @override
    def start(self, metrics: Metrics) -> None:
        """Nothing is followed."""

    @override
    async def close(self) -> None:
        """Nothing is followed."""


class Secured(Entrance):
    """Other brokers speak TLS."""

    def __init__(self, tls: "TlsClient | None") -> None:
        self._tls = tls

    @property
    @override
    def context(self) -> ssl.SSLContext | None:
        """What is in the files now."""
        return None if self._tls is None else self._tls.context

    @override
    def start(self, metrics: Metrics) -> None:
        """Follow the files of keys."""
        if self._tls is not None:
            metrics.register("broker_peers_tls", self._tls.metrics)
            self._tls.start()

    @override
    async def close(self) -> None:
        """Follow them no more."""
        if self._tls is not None:
            await self._tls.close()


def entrance_of(
    config: InterBrokerConfig, protocol: SecurityProtocol, stores: TlsStores
) -> Entrance:
    """Return how to get in to other brokers' listener. Blocks, 50 ms with PKCS12.

    `stores`: the keys and authorities of this broker. Errors: InvalidKeys.
    """
    if protocol is SecurityProtocol.PLAINTEXT:
        return OPEN
    from tailrace.core.security.tls_client import TlsClient  # 100 ms, for those who need it

    return Secured(TlsClient(stores, config.identification))


OPEN: Final = Open()
