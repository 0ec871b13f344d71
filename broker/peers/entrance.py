"""How connections to other brokers get in: TLS, then SASL, as their listener asks for."""

import ssl
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol

from typing_extensions import override

from tailrace.broker.listeners import SecurityProtocol
from tailrace.core.runtime.job_pool import JobPool
from tailrace.core.runtime.metrics import Metrics
from tailrace.core.security.tls_config import Identification, TlsStores

if TYPE_CHECKING:
    from tailrace.core.access.client.kafka_login import Ask
    from tailrace.core.access.client.login import Login
    from tailrace.core.security.tls_client import TlsClient

WORK_S_MAX: Final = 30.0
"""How long the arithmetic of a log-in may take, the wait for the thread included."""


class Entrance(Protocol):
    """Of all connections to other brokers. All calls come from the loop."""

    @property
    def context(self) -> ssl.SSLContext | None:
        """What handshakes that begin now go by; None: without TLS."""

    async def log_in(self, ask: "Ask") -> float | None:
        """Log in by requests of a connection; return after how long to do it again. Unit: s.

        None: never. Errors: AuthenticationFailed, CoreError (no thread), those of `ask`.
        """

    def start(self, metrics: Metrics) -> None:
        """Follow the files of keys."""

    def configure(self, stores: TlsStores) -> None:
        """Take other keys and authorities into use, at the next check."""

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
    async def log_in(self, ask: "Ask") -> float | None:
        """No user is asked for."""
        return None

    @override
    def start(self, metrics: Metrics) -> None:
        """Nothing is followed."""

    @override
    def configure(self, stores: TlsStores) -> None:
        """No keys are needed."""

    @override
    async def close(self) -> None:
        """Nothing is followed."""


class Secured(Entrance):
    """Other brokers speak TLS, or ask for a user, or both."""

    def __init__(self, tls: "TlsClient | None", login: "Login | None") -> None:
        self._tls = tls
        self._login = login
        self._pool = JobPool("peers.log_in", 1)

    @property
    @override
    def context(self) -> ssl.SSLContext | None:
        """What is in the files now."""
        return None if self._tls is None else self._tls.context

    @override
    async def log_in(self, ask: "Ask") -> float | None:
        """Log in, where the listener asks for a user."""
        if self._login is None:
            return None
        from tailrace.core.access.client.kafka_login import log_in

        return await log_in(ask, self._login.exchange(self._work))

    @override
    def start(self, metrics: Metrics) -> None:
        """Follow the files of keys."""
        if self._tls is not None:
            metrics.register("broker_peers_tls", self._tls.metrics)
            self._tls.start()

    @override
    def configure(self, stores: TlsStores) -> None:
        """Take other keys and authorities into use, at the next check."""
        if self._tls is not None:
            self._tls.configure(stores)

    @override
    async def close(self) -> None:
        """Follow them no more."""
        if self._tls is not None:
            await self._tls.close()
        await self._pool.close(WORK_S_MAX)

    async def _work(self, work: Callable[[], bytes]) -> bytes:
        return await self._pool.call(work, WORK_S_MAX)


def entrance_of(
    protocol: SecurityProtocol,
    stores: TlsStores,
    identification: Identification,
    log_in: "Callable[[], Login]",
) -> Entrance:
    """Return how to get in to other brokers' listener. Blocks, 50 ms with PKCS12.

    `stores`: the keys and authorities of this broker; `log_in`: as whom, where it is asked.
    Errors: ConfigError, InvalidKeys.
    """
    tls, login = None, None
    if protocol.uses_tls:
        from tailrace.core.security.tls_client import TlsClient  # 100 ms, for those who need it

        tls = TlsClient(stores, identification)
    if protocol.uses_sasl:
        login = log_in()
    return OPEN if tls is None and login is None else Secured(tls, login)


OPEN: Final = Open()
