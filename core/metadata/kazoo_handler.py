"""How kazoo gets its threads and connections: part of `zookeeper_link`, and of no use elsewhere."""

import errno
import logging
import socket
import ssl
import threading
from collections.abc import Callable, Sequence
from typing import Any

from kazoo.handlers.threading import SequentialThreadingHandler

from tailrace.core.runtime.config import ConfigError

logger = logging.getLogger(__name__)


class LoopHandler(SequentialThreadingHandler):  # type: ignore[misc]  # kazoo has no types
    """kazoo's threads without its callback workers: callbacks run where they arise."""

    def __init__(
        self, connect_timeout_s: float, context: Callable[[], ssl.SSLContext | None]
    ) -> None:
        """`context`: returns what a connection shakes hands with; None: it is not encrypted."""
        super().__init__()
        self._connect_timeout_s = connect_timeout_s
        self._context = context
        self.first: Callable[[Any], None] | None = None
        """Linked to the next result, so that it is there before any answer can come."""

    @property
    def running(self) -> bool:
        """Tell kazoo to call back at once."""
        return False

    def start(self) -> None:
        """Start no workers."""

    def stop(self) -> None:
        """Stop no workers."""

    def spawn(self, func: Callable[..., None], *args: Any, **kwargs: Any) -> threading.Thread:
        """Start kazoo's thread. What it does not expect ends it; its last word is a state."""

        def run() -> None:
            try:
                func(*args, **kwargs)
            except Exception as error:  # noqa: BLE001 - the thread's own boundary
                logger.error("zookeeper_client_failed error=%s", error)  # noqa: TRY400 - kazoo's log has the trace

        thread = threading.Thread(target=run, name="zookeeper", daemon=True)
        thread.start()
        return thread

    def create_connection(
        self, *, address: tuple[str, int], hostname: str, timeout: float, **_: Any
    ) -> socket.socket:
        """Connect, in less time than kazoo allows: the other servers need some of it too.

        What is trusted is what the settings name, and nothing else; kazoo would add the system's
        authorities. Errors: OSError, with its reason in `strerror`, which is all that kazoo keeps.
        """
        timeout_s = min(timeout, self._connect_timeout_s)
        try:
            return _connected(address, hostname, timeout_s, self._context)
        except (OSError, ConfigError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise OSError(getattr(error, "errno", None) or errno.EIO, reason) from error

    def select(
        self,
        readable: Sequence[Any],
        writable: Sequence[Any],
        failed: Sequence[Any],
        timeout: float | None = None,
    ) -> Any:
        """Wait for sockets. What TLS has decrypted and keeps does not show in the socket."""
        waiting = [each for each in readable if isinstance(each, ssl.SSLSocket) and each.pending()]
        if not waiting:
            return super().select(readable, writable, failed, timeout)
        found, writes, errors = super().select(readable, writable, failed, 0)
        return [*waiting, *(each for each in found if each not in waiting)], writes, errors

    def async_result(self) -> Any:
        """Return a result that already knows whom to tell."""
        result = super().async_result()
        first, self.first = self.first, None
        if first is not None:
            result.rawlink(first)
        return result

    def dispatch_callback(self, callback: Any) -> None:
        """Call a watch."""
        callback.func(*callback.args)


def _connected(
    address: tuple[str, int],
    name: str,
    timeout_s: float,
    context_now: Callable[[], ssl.SSLContext | None],
) -> socket.socket:
    plain = socket.create_connection(address, timeout_s)
    try:
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        context = context_now()
        return plain if context is None else context.wrap_socket(plain, server_hostname=name)
    except BaseException:
        plain.close()
        raise
