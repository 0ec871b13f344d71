"""How kazoo gets its threads and connections: part of `zookeeper_link`, and of no use elsewhere."""

import logging
import threading
from collections.abc import Callable
from typing import Any

from kazoo.handlers.threading import SequentialThreadingHandler

logger = logging.getLogger(__name__)


class LoopHandler(SequentialThreadingHandler):  # type: ignore[misc]  # kazoo has no types
    """kazoo's threads without its callback workers: callbacks run where they arise."""

    def __init__(self, connect_timeout_s: float) -> None:
        super().__init__()
        self._connect_timeout_s = connect_timeout_s
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

    def create_connection(self, *args: Any, timeout: float, **kwargs: Any) -> Any:
        """Connect, in less time than kazoo allows: the other servers need some of it too."""
        timeout = min(timeout, self._connect_timeout_s)
        return super().create_connection(*args, timeout=timeout, **kwargs)

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
