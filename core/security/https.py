"""An HTTP port over TLS: its certificate, and handshakes that are bounded."""

from collections.abc import Mapping
from typing import Final

from typing_extensions import override

from tailrace.core.runtime.http import Asked, Guard, Handler, HttpServer, Make
from tailrace.core.runtime.tasks import Tasks
from tailrace.core.security.tls_config import TlsConfig
from tailrace.core.security.tls_listener import TlsDoor, TlsListener
from tailrace.core.security.tls_server import TlsServer

HANDSHAKES_MAX: Final = 200
"""At once; one more is closed."""
HANDSHAKE_S: Final = 10.0
"""A handshake that is not over by then ends its connection."""


class HttpsServer(HttpServer):
    """An `HttpServer` that speaks TLS. All calls come from the loop."""

    def __init__(
        self,
        host: str,
        port: int,
        routes: Mapping[tuple[str, str], Handler | Asked],
        tls: TlsConfig,
        *,
        guard: Guard | None = None,
    ) -> None:
        """Read the key store. Blocks as TlsServer does. Errors: InvalidKeys."""
        self.tls = TlsServer(tls)
        self._tasks = Tasks("https")
        self._handshakes = 0
        super().__init__(host, port, routes, guard=guard, listening=self._listen)

    @override
    async def close(self) -> None:
        """Stop listening, end handshakes and what is open, and follow files no more. Idempotent."""
        await super().close()
        await self._tasks.close()
        await self.tls.close()

    def _listen(self, make: Make, backlog: int) -> TlsListener:
        self.tls.start()
        door = TlsDoor(
            context=lambda: self.tls.context,
            within_s=HANDSHAKE_S,
            enter=self._enter,
            leave=self._leave,
            spawn=lambda work: self._tasks.spawn(work, "handshake"),
            failed=self.tls.count_failure,
            make=make,
        )
        return TlsListener(door, backlog)

    def _enter(self, _: str) -> bool:
        if self._handshakes >= HANDSHAKES_MAX:
            return False
        self._handshakes += 1
        return True

    def _leave(self, _: str) -> None:
        self._handshakes -= 1
