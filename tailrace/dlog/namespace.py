"""A namespace of logs, by its URI: opening it, binding it, the logs in it."""

from collections.abc import Mapping
from contextlib import AsyncExitStack
from functools import partial

from tailrace.core.errors import NoNode, Unavailable
from tailrace.core.log.namespace import LogNamespace
from tailrace.core.log.open_namespace import open_namespace as open_core
from tailrace.core.metadata import bindings
from tailrace.core.metadata.layout import LedgerPaths
from tailrace.core.metadata.namespace_binding import BKDLConfig
from tailrace.core.metadata.uri import open_store, parse_namespace_uri, parse_uri
from tailrace.core.metadata.zookeeper_acls import ZookeeperAccess
from tailrace.core.runtime.tasks import Tasks
from tailrace.dlog.closing import close_all
from tailrace.dlog.log import Log
from tailrace.dlog.opening import Opening
from tailrace.dlog.settings import options_of
from tailrace.dlog.watch import LogListWatch


class Namespace:
    """An open namespace; `open_namespace` opens it.

    Source: org.apache.distributedlog.api.namespace.Namespace.
    """

    def __init__(self, uri: str, core: LogNamespace, stack: AsyncExitStack) -> None:
        self._uri = uri
        self._core = core
        self._stack = stack
        self._tasks = Tasks("dlog")
        self._logs: dict[str, set[Log]] = {}
        self._watches: set[LogListWatch] = set()
        self._is_closed = False

    @property
    def uri(self) -> str:
        """Its URI in the normal form: every server with its port."""
        return self._uri

    async def create_log(self, name: str, settings: Mapping[str, str] | None = None) -> None:
        """Make a log. `settings`: those that it will be opened with, to be checked now.

        Errors: LogExists, InvalidStreamName; ConfigError, InvalidQuorums for the settings;
        Unavailable: it may be there. Cancel: as Unavailable. Cost: one metadata commit.
        Source: Namespace.createLog.
        """
        self._check_open()
        await self._core.create_log(name, settings)

    def open_log(self, name: str, settings: Mapping[str, str] | None = None) -> Opening[Log]:
        """Open a log that is there.

        `settings`: its own, by name, where they differ from the namespace's; DistributedLog allows
        a few: quorums, periodicFlushFrequencyMilliSeconds, enableImmediateFlush, the readers' idle
        thresholds, positionGapDetectionEnabled. They are not stored: each process gives its own.
        Errors: LogNotFound (unless createStreamIfNotExists is set, which makes it),
        InvalidStreamName, CorruptData; ConfigError, also when it is open with other settings;
        InvalidQuorums. Cancel: nothing is open. Cost: a few metadata reads; its first reader or
        writer costs more. Source: Namespace.openLog.
        """
        return Opening(self._open_log(name, settings))

    async def log_exists(self, name: str) -> bool:
        """Tell whether there is such a log. Errors: InvalidStreamName. Source: logExists."""
        self._check_open()
        return await self._core.log_exists(name)

    async def list_logs(self, prefix: str = "") -> list[str]:
        """Return the names at the top of the namespace, or one level below `prefix`, sorted.

        A name that only has logs below it is listed too. Errors: InvalidStreamName.
        Cost: one metadata read. Source: Namespace.getLogs.
        """
        self._check_open()
        return await self._core.list_logs(prefix)

    def watch_logs(self, prefix: str = "") -> Opening[LogListWatch]:
        """Watch the names that `list_logs` gives: what they are now, then each change.

        Errors: InvalidStreamName. Cost: one metadata read per change.
        Source: Namespace.registerNamespaceListener.
        """
        return Opening(self._watch_logs(prefix))

    async def rename_log(self, old: str, new: str) -> None:
        """Give a log another name; here it is closed first, readers elsewhere end.

        Errors: LogNotFound, LogExists, InvalidStreamName; OwnershipAcquireFailed while another
        process writes it; MetadataConflict: another process changed it, try again; OverCapacity: it
        has too many segments for one commit; Unavailable: it has either name.
        Source: Namespace.renameLog.
        """
        self._check_open()
        await self._close_log(old)
        await self._core.rename_log(old, new)

    async def delete_log(self, name: str) -> None:
        """Delete a log with all its bytes; here it is closed first.

        A crash before the end leaves a shorter log, which can be deleted again.
        Errors: LogNotFound; OwnershipLost when another process writes it; Unavailable.
        Cost: two commits per segment. Source: Namespace.deleteLog.
        """
        self._check_open()
        await self._close_log(name)
        await self._core.delete_log(name)

    async def close(self) -> None:
        """Close every log, writer, reader and watch of it, then the connections. Idempotent.

        Errors: the first CoreError of a writer that could not be closed in order; everything is
        closed then too. Cancel: as a crash; what was acknowledged stays.
        Source: Namespace.close.
        """
        if self._is_closed:
            return
        self._is_closed = True
        try:
            logs = [log for each in self._logs.values() for log in each]
            await close_all([*self._watches, *logs])
        finally:
            try:
                await self._stack.aclose()
            finally:
                await self._tasks.close()  # last: until then a writer may fail

    # ------------------------------------------------------------------ inside

    async def _open_log(self, name: str, settings: Mapping[str, str] | None) -> Log:
        self._check_open()
        core = await self._core.open_log(name, settings)
        self._check_open()
        subscribers = self._core.subscribers(core.name)
        log = Log(core, subscribers, self._tasks, self._forget)
        self._logs.setdefault(core.name, set()).add(log)
        return log

    async def _forget(self, log: Log) -> None:
        """Give the log up with the last `Log` of it."""
        others = self._logs.get(log.name, set())
        if log in others:
            others.remove(log)
            if not others:
                del self._logs[log.name]
                await self._core.close_log(log.name)

    async def _watch_logs(self, prefix: str) -> LogListWatch:
        self._check_open()
        start = partial(self._core.watch_logs, prefix=prefix)
        watch = LogListWatch(start, self._watches.discard)
        self._watches.add(watch)
        return watch

    async def _close_log(self, name: str) -> None:
        await close_all([*self._logs.get(name.removeprefix("/"), ())])

    def _check_open(self) -> None:
        if self._is_closed:
            raise Unavailable(f"the namespace {self._uri} is closed")


def open_namespace(uri: str, settings: Mapping[str, object] | None = None) -> Opening[Namespace]:
    """Open a bound namespace: `distributedlog://HOST:PORT;HOST:PORT/PATH`.

    `sqlite:PATH` is the namespace of a standalone broker. It is not changed, and its
    records can be read only where its bookie is registered. `settings`: by DistributedLog's names,
    see `known_settings`.
    Errors: ValueError (the URI), ConfigError; NoNode: it is not bound; NotYetImplemented: it is
    federated; Unavailable: no server answers; CorruptData.
    Cancel: nothing is open. Cost: a ZooKeeper session; bookies are connected to when needed.
    Source: NamespaceBuilder.
    """
    return Opening(_open(uri, settings))


async def _open(uri: str, settings: Mapping[str, object] | None) -> Namespace:
    options = options_of(settings)
    stack = AsyncExitStack()
    opened = await stack.enter_async_context(open_core(uri, options))
    return Namespace(opened.uri.text, opened.logs, stack)


async def bind_namespace(
    uri: str,
    ledgers: str,
    *,
    force: bool = False,
    settings: Mapping[str, object] | None = None,
) -> bool:
    """Make a namespace on the ledgers of a cluster; False: it was bound to them already.

    `ledgers`: `zk://HOST:PORT,HOST:PORT/ledgers`, as the bookies have it. `force`: replace another
    binding; its logs are not moved, and cannot be read before the old one is back. `settings`: as
    `open_namespace`; those of ZooKeeper count.
    Errors: ValueError for a URI that is not one of these; NoNode: there is no cluster; NodeExists:
    it has another binding or other data; BadVersion: another process binds it at the same time;
    Unavailable, AuthFailed; NoAuth; ConfigError.
    Cancel: as Unavailable, it may be bound. Cost: two ZooKeeper sessions, one commit.
    Source: DLMetadata.create, `dlog admin bind`.
    """
    at, ledgers_at = parse_namespace_uri(uri), parse_uri(ledgers)
    if at.path is not None or ledgers_at.path is not None:
        raise ValueError(f"{uri!r} on {ledgers!r}: a standalone broker binds its own namespace")
    config = options_of(settings).zookeeper
    store = await open_store(ledgers, access=ZookeeperAccess(config))
    try:
        layout = LedgerPaths(ledgers_at.ledgers_root).layout
        if await store.exists(layout) is None:
            raise NoNode(f"there is no cluster at {ledgers}: {layout} is not there")
    finally:
        await store.close()
    binding = BKDLConfig(
        bk_zk_servers=ledgers_at.hosts,
        bk_ledgers_path=ledgers_at.ledgers_root,
        dl_zk_servers_for_writer=at.hosts,
    )
    access = ZookeeperAccess(config, at.root)
    store = await open_store(f"zk://{at.hosts}{at.root}", access=access)
    try:
        return await bindings.bind_namespace(store, at.root, binding, force=force)
    finally:
        await store.close()
