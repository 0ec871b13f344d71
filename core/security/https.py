"""TLS for an HTTP port: its certificate, its handshakes, and who its clients are by theirs."""

from typing import Final

from tailrace.core.runtime.http import Listening, Make
from tailrace.core.runtime.tasks import Tasks
from tailrace.core.security.tls_config import TlsConfig
from tailrace.core.security.tls_listener import TlsDoor, TlsListener
from tailrace.core.security.tls_server import TlsServer

HANDSHAKES_MAX: Final = 200
"""At once; one more is closed."""
HANDSHAKE_S: Final = 10.0
"""A handshake that is not over by then ends its connection."""


class Https:
    """What an HTTP port over TLS needs beside its server. All calls come from the loop."""

    def __init__(self, config: TlsConfig) -> None:
        """Read the key store. Blocks as TlsServer does. Errors: InvalidKeys."""
        self.tls = TlsServer(config)
        self._tasks = Tasks("https")
        self._handshakes = 0

    def listening(self, make: Make, backlog: int) -> Listening:
        """Return a socket for HttpServer that speaks TLS, and follow changes of the files."""
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

    async def close(self) -> None:
        """End handshakes, and follow files no more. Idempotent."""
        await self._tasks.close()
        await self.tls.close()

    def _enter(self, _: str) -> bool:
        if self._handshakes >= HANDSHAKES_MAX:
            return False
        self._handshakes += 1
        return True

    def _leave(self, _: str) -> None:
        self._handshakes -= 1
