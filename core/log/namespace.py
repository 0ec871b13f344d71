"""The logs of one DistributedLog namespace: create, open, list, delete.

Invariant: a log's nodes are made all at once, and `Log` objects are shared: one per log.
Source: reference DistributedLog 3.
"""

import logging

from core.errors import LogExists, LogNotFound, NodeExists, NoNode, NotEmpty, OwnershipLost
from core.ledger.client import LedgerClient
from core.log.config import LogConfig
from core.log.context import LogContext, LogMetrics
from core.log.entry_cache import EntryCache
from core.log.log import Log
from core.log.names import check_log_name, is_reserved
from core.metadata.bindings import bind_namespace, is_bound
from core.metadata.layout import LEDGERS_ROOT, NAMESPACE_ROOT, LogPaths
from core.metadata.namespace_binding import BKDLConfig
from core.metadata.store import Create, Delete, MetadataStore
from core.runtime.clock import Clock

logger = logging.getLogger(__name__)

DEFAULT_ROOT = NAMESPACE_ROOT


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
        """`binding`: what `bind` writes; the servers that other libraries would find it by."""
        self.metrics = LogMetrics()
        self._store = store
        entries = EntryCache(config.read_cache_bytes)
        self._context = LogContext(store, ledgers, config, clock, self.metrics, entries)
        self._root = root
        self._binding = binding or BKDLConfig(
            bk_zk_servers="embedded", bk_ledgers_path=LEDGERS_ROOT
        )
        self._open: dict[str, Log] = {}

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

    async def create_log(self, name: str) -> None:
        """Make a log. Errors: LogExists, InvalidStreamName.

        Cost: one commit, two more for the first log.
        """
        name = check_log_name(name)
        paths = self._paths(name)
        nodes = paths.initial_nodes()
        missing = [node for node in nodes if await self._store.exists(node[0]) is None]
        if len(missing) == len(nodes):
            await self._make_parents(name)
        if paths.segments not in dict(missing):
            raise LogExists(name)
        try:
            await self._store.multi([Create(path, data) for path, data in missing])
        except NodeExists:
            raise LogExists(name) from None

    async def open_log(self, name: str) -> Log:
        """Return the log. Errors: LogNotFound, InvalidStreamName."""
        name = check_log_name(name)
        if name not in self._open:
            if not await self.log_exists(name):
                raise LogNotFound(name)
            self._open.setdefault(name, Log(name, self._paths(name), self._context))
        return self._open[name]

    async def log_exists(self, name: str) -> bool:
        """Tell whether there is such a log."""
        return await self._store.exists(self._paths(check_log_name(name)).segments) is not None

    async def list_logs(self) -> list[str]:
        """Return the names of all logs at the top of the namespace, sorted."""
        try:
            names = await self._store.children(self._root)
        except NoNode:
            return []
        return [name for name in names if not is_reserved(name)]

    async def delete_log(self, name: str) -> None:
        """Delete a log with its ledgers; a writer of this process is given up.

        A crash in between leaves a shorter log, which can be deleted again.
        Errors: LogNotFound; OwnershipLost when another process has it.
        """
        log = await self.open_log(name)
        await log.delete()
        self._open.pop(log.name, None)
        paths = self._paths(log.name)
        below = await self._tree(paths.partition)
        has_siblings = len(await self._store.children(paths.log)) > 1
        try:
            await self._store.multi(
                [Delete(path) for path in (below if has_siblings else [*below, paths.log])]
            )
        except NotEmpty as error:
            raise OwnershipLost(f"{name} was opened while it was deleted") from error

    async def close(self) -> None:
        """Give up all logs as they are; close their writers first to complete them."""
        for log in list(self._open.values()):
            await log.close()
        self._open.clear()

    def _paths(self, name: str) -> LogPaths:
        return LogPaths(self._root, name)

    async def _make_parents(self, name: str) -> None:
        await self.bind()
        parent = f"{self._root}/{name}".rpartition("/")[0]
        if await self._store.exists(parent) is None:
            try:
                await self._store.create(parent, parents=True)
            except NodeExists:
                logger.debug("parent_made_by_another path=%s", parent)

    async def _tree(self, path: str) -> list[str]:
        """Return the paths of a subtree, children before parents."""
        below: list[str] = []
        for child in await self._store.children(path):
            below += await self._tree(f"{path}/{child}")
        return [*below, path]
