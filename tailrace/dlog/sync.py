"""The embedded log for programs without asyncio: the names of `tailrace.dlog`, blocking.

    with sync.open_namespace("distributedlog://zk1:2181;zk2:2181/messaging/orders") as orders:
        with orders.open_log("payments") as log, log.open_writer() as writer:
            dlsn = writer.write(b"paid", txid=1)

Each namespace has one thread, which runs an event loop; any thread may call. A call does what the
call of its name does in `tailrace.dlog`, where it is described, and blocks until that is done.
KeyboardInterrupt is its cancel: a record that was taken is written all the same, a reader loses
nothing, an opening leaves nothing open. What is still open when the interpreter ends is closed
then. A namespace does not survive a fork: the child opens its own.
"""

import threading
from collections import deque
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Self

from typing_extensions import override

from tailrace import dlog
from tailrace.dlog import at_end, errors
from tailrace.dlog.errors import *  # noqa: F403 - all of them, as `__all__` says
from tailrace.dlog.face import Face, blocking, opening
from tailrace.dlog.loop_thread import LoopThread
from tailrace.dlog.records import START, TAIL, Edge, LogRecord
from tailrace.dlog.settings import Setting, known_settings
from tailrace.dlog.watch import LogListChange
from tailrace.protocol.distributedlog.dlsn import DLSN
from tailrace.protocol.ids import Buffer, TxId

if TYPE_CHECKING:
    from concurrent.futures import Future

    from tailrace.dlog.sync_thin_client import (
        MultiStreamWriter,
        ThinClient,
        ThinReader,
        ThinWriter,
    )
    from tailrace.dlog.thin_client import ProxyError, Segment, Written, known_client_settings

_THIN: Final = ("MultiStreamWriter", "ThinClient", "ThinReader", "ThinWriter")
_THIN_VALUES: Final = ("ProxyError", "Segment", "Written", "known_client_settings")

__all__ = [
    "DLSN",
    "START",
    "TAIL",
    "Edge",
    "Log",
    "LogListChange",
    "LogListWatch",
    "LogReader",
    "LogRecord",
    "LogWriter",
    "MultiStreamWriter",
    "Namespace",
    "ProxyError",
    "Segment",
    "Setting",
    "ThinClient",
    "ThinReader",
    "ThinWriter",
    "Written",
    "bind_namespace",
    "known_client_settings",
    "known_settings",
    "open_namespace",
]
__all__ += errors.__all__

_SUBMITTED_MAX: Final = 10_000
"""Records of one writer that were submitted and not answered; one more waits."""
_READ_AT_ONCE: Final = 1_000
"""Records that an iteration fetches for one change of threads."""


class LogWriter(Face[dlog.LogWriter]):
    """As `tailrace.dlog.LogWriter`. Threads that share it take turns in the order of their calls.

    Their txids must not fall either: choose each under a lock of yours, with its `submit`.
    """

    def __init__(self, inner: dlog.LogWriter, thread: LoopThread) -> None:
        super().__init__(inner, thread)
        self._places = threading.BoundedSemaphore(_SUBMITTED_MAX)

    @property
    def last_txid(self) -> TxId | None:
        """Txid of the last record that is durable, at first that of the log; None: it has none."""
        return self._inner.last_txid

    @property
    def failure(self) -> dlog.CoreError | None:
        """Why the writer is dead; None while it lives, and after a close in order."""
        return self._inner.failure

    write = blocking(dlog.LogWriter.write)

    def submit(self, payload: Buffer, txid: TxId) -> "Future[DLSN]":
        """Have a record written; return a future of its position, done when it is durable.

        It waits only while 10,000 records have no answer. Every error is in the future, which
        cannot be cancelled. Cost: 0.1 ms of CPU; `write_bulk` takes a tenth of it for each record.
        """
        record = bytes(payload)
        self._places.acquire()
        try:
            answer = self._thread.submit(partial(self._inner._write_unreported, record, txid))
        except BaseException:
            self._places.release()
            raise
        answer.add_done_callback(lambda _: self._places.release())
        return answer

    def write_bulk(self, records: Iterable[tuple[Buffer, TxId]]) -> list[DLSN]:
        """Write records as `tailrace.dlog.LogWriter.write_bulk`; all are collected first."""
        return self._thread.run(partial(self._inner.write_bulk, list(records)))

    flush = blocking(dlog.LogWriter.flush)
    commit = blocking(dlog.LogWriter.commit)
    mark_end_of_stream = blocking(dlog.LogWriter.mark_end_of_stream)
    failed = blocking(dlog.LogWriter.failed)
    abort = blocking(dlog.LogWriter.abort)


class LogReader(Face[dlog.LogReader]):
    """As `tailrace.dlog.LogReader`. Threads that share it share its records: each gets others."""

    def __init__(self, inner: dlog.LogReader, thread: LoopThread) -> None:
        super().__init__(inner, thread)
        self._ready: deque[LogRecord] = deque()
        """What iterations have fetched. Only whole steps touch it, so threads need no lock."""

    def read_next(self) -> LogRecord:
        """Return the next record, once there is one, as `tailrace.dlog.LogReader.read_next`."""
        return self.read_bulk(1)[0]

    def read_bulk(self, count: int, timeout_s: float | None = None) -> list[LogRecord]:
        """Return the next records, `count` at most, as `tailrace.dlog.LogReader.read_bulk`."""
        found: list[LogRecord] = []
        with suppress(IndexError):
            while len(found) < count:
                found.append(self._ready.popleft())
        return found or self._thread.run(partial(self._inner.read_bulk, count, timeout_s))

    def wait_for_more(self, timeout_s: float | None = None) -> bool:
        """Wait until there is a record to read, as `tailrace.dlog.LogReader.wait_for_more`."""
        return bool(self._ready) or self._thread.run(partial(self._inner.wait_for_more, timeout_s))

    @override
    def close(self) -> None:
        """Close it; calls that read from it raise ReadCancelled. Idempotent. Errors: none."""
        self._ready.clear()
        super().close()

    def __iter__(self) -> Self:
        """Iterate over the records; at the tail wait for more, behind a sealed log's end stop."""
        return self

    def __next__(self) -> LogRecord:
        """Return the next record. What was fetched for it stays for the calls that follow."""
        while True:
            try:
                return self._ready.popleft()
            except IndexError:
                pass
            try:
                self._thread.run(self._fetch)
            except dlog.EndOfStream:
                raise StopIteration from None

    async def _fetch(self) -> None:
        self._ready.extend(await self._inner.read_bulk(_READ_AT_ONCE))


class LogListWatch(Face[dlog.LogListWatch]):
    """As `tailrace.dlog.LogListWatch`."""

    read_change = blocking(dlog.LogListWatch.read_change)

    def __iter__(self) -> Self:
        """Iterate over the changes until the watch is closed."""
        return self

    def __next__(self) -> LogListChange:
        """Return the next change."""
        try:
            change = self.read_change()
        except dlog.ReadCancelled:
            raise StopIteration from None
        assert change is not None, "it waits for ever"
        return change


class Log(Face[dlog.Log]):
    """As `tailrace.dlog.Log`."""

    @property
    def name(self) -> str:
        """Its name in the namespace."""
        return self._inner.name

    open_writer = opening(dlog.Log.open_writer, LogWriter)
    open_reader = opening(dlog.Log.open_reader, LogReader)
    last_record = blocking(dlog.Log.last_record)
    record_count = blocking(dlog.Log.record_count)
    find = blocking(dlog.Log.find)
    is_sealed = blocking(dlog.Log.is_sealed)
    truncate = blocking(dlog.Log.truncate)
    purge = blocking(dlog.Log.purge)
    last_commit_position = blocking(dlog.Log.last_commit_position)
    advance_commit_position = blocking(dlog.Log.advance_commit_position)
    delete_subscriber = blocking(dlog.Log.delete_subscriber)


class Namespace(Face[dlog.Namespace]):
    """As `tailrace.dlog.Namespace`; it has the thread of all that is opened from it."""

    def __init__(self, inner: dlog.Namespace, thread: LoopThread) -> None:
        super().__init__(inner, thread)
        self._closing = threading.Lock()
        at_end.opened(self)

    @property
    def uri(self) -> str:
        """Its URI in the normal form: every server with its port."""
        return self._inner.uri

    create_log = blocking(dlog.Namespace.create_log)
    open_log = opening(dlog.Namespace.open_log, Log)
    log_exists = blocking(dlog.Namespace.log_exists)
    list_logs = blocking(dlog.Namespace.list_logs)
    watch_logs = opening(dlog.Namespace.watch_logs, LogListWatch)
    rename_log = blocking(dlog.Namespace.rename_log)
    delete_log = blocking(dlog.Namespace.delete_log)

    @override
    def close(self) -> None:
        """Close every log, writer, reader and watch of it, then end its thread. Idempotent.

        Errors: the first CoreError of a writer that could not be closed in order; everything is
        closed then too. A KeyboardInterrupt ends it as a crash would.
        """
        if not self._thread.is_here:
            return
        with self._closing:
            if not at_end.is_open(self):
                return
            try:
                super().close()
            finally:
                at_end.closed(self)
                self._thread.stop()


def open_namespace(uri: str, settings: Mapping[str, object] | None = None) -> Namespace:
    """Open a bound namespace, as `tailrace.dlog.open_namespace`. Cost: a thread, too."""
    thread = LoopThread()
    thread.start()
    try:
        return Namespace(thread.run(lambda: dlog.open_namespace(uri, settings)), thread)
    except BaseException:
        thread.stop()
        raise


def bind_namespace(
    uri: str,
    ledgers: str,
    *,
    force: bool = False,
    settings: Mapping[str, object] | None = None,
) -> bool:
    """Make a namespace on the ledgers of a cluster, as `tailrace.dlog.bind_namespace`."""
    thread = LoopThread()
    thread.start()
    try:
        return thread.run(
            partial(dlog.bind_namespace, uri, ledgers, force=force, settings=settings)
        )
    finally:
        thread.stop()


def __getattr__(name: str) -> Any:
    """Load the thin client when its first name is used."""
    if name in _THIN:
        return getattr(import_module("tailrace.dlog.sync_thin_client"), name)
    if name in _THIN_VALUES:
        return getattr(dlog, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
