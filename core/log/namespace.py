"""The logs of one DistributedLog namespace: create, open, list, rename, delete.

Invariant: a log's nodes are made, moved and removed all at once, and `Log` objects are shared: one
per log. Source: reference DistributedLog 3.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from tailrace.core.errors import LogExists, LogNotFound, NodeExists, NoNode
from tailrace.core.ledger.client import LedgerClient
from tailrace.core.log.allocator_pool import AllocatorPool
from tailrace.core.log.cold.store import ColdStore
from tailrace.core.log.config import LogConfig
from tailrace.core.log.context import LogContext, LogMetrics, NamespaceLimits
from tailrace.core.log.entry_cache import EntryCache
from tailrace.core.log.log import CheckMay, Log
from tailrace.core.log.log_list_watch import LogListListener, LogListWatch
from tailrace.core.log.names import check_log_name, is_reserved
from tailrace.core.log.overrides import with_overrides
from tailrace.core.log.stored_log import StoredLog
from tailrace.core.log.stream_nodes import (
    delete_stream,
    make_stream,
    mend_stream,
    move_stream,
    stream_exists,
)
from tailrace.core.log.subscribers import Subscribers
from tailrace.core.metadata.bindings import bind_namespace, is_bound
from tailrace.core.metadata.layout import LEDGERS_ROOT, NAMESPACE_ROOT, LogPaths
from tailrace.core.metadata.namespace_binding import BKDLConfig
from tailrace.core.metadata.node_reads import read_current, read_nodes
from tailrace.core.metadata.store import MetadataStore
from tailrace.core.runtime.clock import Clock
from tailrace.core.runtime.config import ConfigError

logger = logging.getLogger(__name__)

DEFAULT_ROOT = NAMESPACE_ROOT

_CONFIGS_MAX: Final = 1_000
"""Different settings of logs that are remembered; beyond it they are made anew."""


class LogNamespace:
    """One namespace. It owns neither the store nor the ledger client; `close` gives up its logs."""

    def __init__(
        self,
        store: MetadataStore,
        ledgers: LedgerClient,
        config: LogConfig,
        clock: Clock,
        root: str = DEFAULT_ROOT,
        *,
        binding: BKDLConfig | None = None,
    ) -> None:
        """`binding`: what the namespace is bound to, or what `bind` binds it to."""
        self.metrics = LogMetrics()
        self._store = store
        self._root = root
        self._binding = binding or BKDLConfig(
            bk_zk_servers="embedded", bk_ledgers_path=LEDGERS_ROOT
        )
        config = _as_bound(config, self._binding)
        pool = None
        if config.uses_allocator_pool:
            path = f"{root}/{config.allocator_pool_path}/{config.allocator_pool_name}"
            pool = AllocatorPool(store, ledgers, path, config.allocator_pool_size)
        entries = EntryCache(config.read_cache_bytes)
        self._context = LogContext(
            store,
            ledgers,
            config,
            clock,
            self.metrics,
            entries,
            NamespaceLimits.of(config),
            pool=pool,
        )
        self._open: dict[str, Log] = {}
        self._overrides: dict[str, Mapping[str, str]] = {}
        self._configs: dict[frozenset[tuple[str, str]], LogConfig] = {}
        self._watches: dict[LogListWatch, None] = {}

    def use_cold_storage(self, cold: ColdStore) -> None:
        """Tell where segments may be besides on bookies, before a log is opened.

        The caller closes it.
        """
        assert not self._open, "logs were opened without it"
        self._context = self._context._replace(cold=cold)

    @property
    def has_cold_storage(self) -> bool:
        """Whether segments can be copied to cold storage, and read there."""
        return self._context.cold is not None

    async def bind(self) -> None:
        """Make the namespace unless it is there; one that nothing binds gets its binding.

        One that an ancestor binds, or that has other data, is left as it is. Errors: BadVersion
        when somebody else binds it to something else meanwhile.
        """
        if await is_bound(self._store, self._root):
            return
        try:
            await bind_namespace(self._store, self._root, self._binding)
        except NodeExists:
            logger.info("namespace_bound_by_another root=%s", self._root)

    def check_settings(self, overrides: Mapping[str, str] | None = None) -> None:
        """Refuse the settings of a log that is to be made, before anything is made.

        Errors: ConfigError, as `open_log`; InvalidQuorums when its ledgers could not keep what
        their placement promises.
        """
        self._settings(overrides or {}, "to be made")

    async def create_log(self, name: str, overrides: Mapping[str, str] | None = None) -> None:
        """Make a log, or finish one that was begun; `overrides`: those that it will be opened with.

        Errors: LogExists, InvalidStreamName; as `check_settings`.
        Cost: one commit, up to two more for the first log.
        """
        paths = self._paths(check_log_name(name))
        self.check_settings(overrides)
        await self._make(paths)

    async def open_log(self, name: str, overrides: Mapping[str, str] | None = None) -> Log:
        """Return the log; one that was begun and left so is made whole.

        `overrides`: settings of this log alone, by name (`overrides.OVERRIDABLE`). They stay with
        the log as long as it is open; None takes it as it is.
        Errors: LogNotFound, unless createStreamIfNotExists makes it; InvalidStreamName; CorruptData
        when its layout is unknown; ConfigError for overrides that are wrong, or not those that the
        log is open with; InvalidQuorums as `create_log`.
        """
        name = check_log_name(name)
        if name not in self._open:
            config = self._settings(overrides or {}, name)
            await self._ensure(self._paths(name))
            self._install(name, config, overrides or {})
        own = self._overrides.get(name, {})
        if overrides is not None and overrides != own:
            raise ConfigError(f"log {name} is open with other settings: {own or 'none'}")
        return self._open[name]

    def stored_log(self, name: str) -> StoredLog:
        """Return a log to look at without opening it, there or not. Errors: InvalidStreamName."""
        name = check_log_name(name)
        return StoredLog(name, self._paths(name), self._context)

    def subscribers(self, name: str) -> Subscribers:
        """Return the positions of a log's subscribers. Errors: InvalidStreamName."""
        return Subscribers(self._store, self._paths(check_log_name(name)))

    async def log_exists(self, name: str) -> bool:
        """Tell whether there is such a log. Errors: InvalidStreamName."""
        return await stream_exists(self._store, self._paths(check_log_name(name)))

    async def first_log(self, names: Sequence[str]) -> str | None:
        """Return the first of these names that a log has; None: none of them.

        Logs that others made before are seen. Errors: InvalidStreamName.
        Cost: a sync, and a round trip for each 128 names.
        """
        paths = [self._paths(check_log_name(name)).segments for name in names]
        nodes = await read_current(self._store, lambda: read_nodes(self._store, paths))
        there = (name for name, node in zip(names, nodes, strict=True) if node is not None)
        return next(there, None)

    async def list_logs(self, prefix: str = "") -> list[str]:
        """Return the names of all logs at the top of the namespace, or below `prefix`, sorted.

        Names between a prefix and logs below it are listed too. Logs that others made before are
        seen. Errors: InvalidStreamName.
        """
        path, before = self._level(prefix)
        try:
            names = await read_current(self._store, lambda: self._store.children(path))
        except NoNode:
            return []
        return [before + name for name in names if not is_reserved(name)]

    def watch_logs(self, listener: LogListListener, prefix: str = "") -> LogListWatch:
        """Tell `listener` of the names that `list_logs` gives, now and whenever they change.

        Close the watch to end it; `close` of the namespace does so too. Errors: InvalidStreamName.
        """
        watch = LogListWatch(self._store, *self._level(prefix), listener, self._forget_watch)
        self._watches[watch] = None
        watch.start()
        return watch

    def _forget_watch(self, watch: LogListWatch) -> None:
        self._watches.pop(watch, None)

    async def rename_log(self, old: str, new: str) -> None:
        """Give a log another name; readers of this process end with the old one.

        Errors: LogNotFound, LogExists, InvalidStreamName; OwnershipAcquireFailed when a process
        writes it, rewrites its segments or reads it under a read lock; MetadataConflict: it changed
        meanwhile, try again; OverCapacity: too many segments for one multi; Unavailable: either
        name may have it.
        """
        source, target = self._paths(check_log_name(old)), self._paths(check_log_name(new))
        if source.log == target.log:
            raise LogExists(new)
        await move_stream(self._store, source, target)
        await self._forget(check_log_name(old))

    async def delete_log(self, name: str, check_may: CheckMay | None = None) -> None:
        """Delete a log with its ledgers; a writer of this process is given up.

        A crash in between leaves a shorter log, which can be deleted again. `check_may` is called
        while nobody else can delete it: for one that others may delete too, and make anew.
        Errors: LogNotFound; OwnershipLost when another process has it.
        """
        log = await self.open_log(name)
        try:
            await log.delete(check_may)
        finally:  # whoever deletes it in the end, another of that name may have other settings
            await self._forget(log.name)
        await delete_stream(self._store, self._paths(log.name))

    async def close_log(self, name: str) -> None:
        """Give up a log as it is, if it is open; close its writer first to complete it.

        The next `open_log` makes another `Log`, with its own overrides: for a log that another
        process may delete and make anew. Errors: InvalidStreamName.
        """
        await self._forget(check_log_name(name))

    async def close(self) -> None:
        """Give up all logs as they are; close their writers first to complete them."""
        for watch in list(self._watches):
            await watch.close()
        for name in list(self._open):
            await self._forget(name)

    def _settings(self, overrides: Mapping[str, str], name: str) -> LogConfig:
        """Return the settings of a log: one object for all logs with the same overrides.

        Errors: ConfigError; InvalidQuorums. Cost: a look-up after the first time; that takes 1 ms.
        """
        key = frozenset(overrides.items())
        config = self._configs.get(key)
        if config is None:
            config = with_overrides(self._context.config, overrides, name)
            self._context.ledgers.check(config.ledger_config())
            if len(self._configs) >= _CONFIGS_MAX:
                self._configs.clear()
            self._configs[key] = config
        return config

    def _install(self, name: str, config: LogConfig, overrides: Mapping[str, str]) -> None:
        """Keep the log, unless another call has opened it meanwhile: its settings count."""
        if name in self._open:
            return
        context = self._context._replace(config=config) if overrides else self._context
        self._open[name] = Log(name, self._paths(name), context)
        if overrides:
            self._overrides[name] = dict(overrides)

    async def _ensure(self, paths: LogPaths) -> None:
        """See to it that a log can be opened. Errors: LogNotFound, CorruptData."""
        try:
            await mend_stream(self._store, paths)
        except LogNotFound:
            if not self._context.config.creates_logs:
                raise
            try:
                await self._make(paths)
            except LogExists:
                logger.info("log_made_by_another path=%s", paths.log)

    async def _make(self, paths: LogPaths) -> None:
        if await self._store.exists(paths.log) is None:
            await self.bind()
        await make_stream(self._store, paths)

    async def _forget(self, name: str) -> None:
        log = self._open.pop(name, None)
        self._overrides.pop(name, None)
        if log is not None:
            await log.close()

    def _level(self, prefix: str) -> tuple[str, str]:
        """Return a node whose children are logs, and what the names of these begin with."""
        if not prefix:
            return self._root, ""
        name = check_log_name(prefix)
        return f"{self._root}/{name}", f"{name}/"

    def _paths(self, name: str) -> LogPaths:
        return LogPaths(self._root, name)


def _as_bound(config: LogConfig, binding: BKDLConfig) -> LogConfig:
    """Return the settings with what the binding of a namespace decides."""
    first = binding.first_log_segment_seq_no
    return replace(
        config,
        encodes_region=binding.encode_region_id,
        first_lssn=config.first_lssn if first is None else first,
    )
