"""The door to a namespace by its URI: its metadata, its binding, the ledgers that this names.

Flow: store of the URI -> binding (of the nearest ancestor that has one) -> store and bookies of the
ledgers -> `LogNamespace`. Each kind of servers that the binding names is connected to once.
Source: reference DistributedLog 3.1, 3.6; BKNamespaceDriver.
"""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace

from tailrace.core.errors import CorruptData
from tailrace.core.ledger.bookie_registry import RegisteredBookies
from tailrace.core.ledger.client import LedgerClient
from tailrace.core.ledger.config import BookieClientConfig, LedgerClientConfig
from tailrace.core.log.cold.config import ColdConfig
from tailrace.core.log.cold.opening import open_cold_store
from tailrace.core.log.cold.store import ColdStore
from tailrace.core.log.config import LogConfig
from tailrace.core.log.namespace import LogNamespace
from tailrace.core.metadata.bindings import resolve_binding
from tailrace.core.metadata.namespace_binding import BKDLConfig
from tailrace.core.metadata.sqlite import SqliteStore
from tailrace.core.metadata.store import MetadataStore
from tailrace.core.metadata.uri import NamespaceUri, parse_namespace_uri, parse_servers
from tailrace.core.metadata.zookeeper import SESSION_TIMEOUT_MS, ZookeeperStore
from tailrace.core.metadata.zookeeper_acls import ZookeeperAccess
from tailrace.core.metadata.zookeeper_config import ZookeeperSecurityConfig
from tailrace.core.runtime.clock import Clock, SystemClock


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceOptions:
    """How a namespace is opened."""

    log: LogConfig = field(default_factory=LogConfig)
    ledgers: LedgerClientConfig = field(default_factory=LedgerClientConfig)
    """Its `root` gives way to the binding's path."""
    bookies: BookieClientConfig = field(default_factory=BookieClientConfig)
    cold: ColdConfig = field(default_factory=ColdConfig)
    session_timeout_ms: int = SESSION_TIMEOUT_MS
    answer_within_ms: int | None = None
    """How long operations on metadata wait, if not for one session timeout."""
    zookeeper: ZookeeperSecurityConfig = field(default_factory=ZookeeperSecurityConfig)
    ledger_servers: str = ""
    """ZooKeeper servers of the ledgers, if the names in the binding do not lead there from here;
    then the URI's servers have the logs, whatever the binding says."""


@dataclass(frozen=True, slots=True)
class OpenNamespace:
    """A namespace with everything below it, as long as it is open."""

    uri: NamespaceUri
    binding: BKDLConfig
    store: MetadataStore
    """Of the logs."""
    ledger_store: MetadataStore
    """Of the ledgers; the same one if the binding names the same servers."""
    bookies: RegisteredBookies
    ledgers: LedgerClient
    logs: LogNamespace
    cold: ColdStore | None = None
    """If the options name one."""


@asynccontextmanager
async def open_namespace(
    uri: str, options: NamespaceOptions | None = None, clock: Clock | None = None
) -> AsyncIterator[OpenNamespace]:
    """Open a bound namespace; its logs and connections are closed at the end of the block.

    A `sqlite:` URI names the namespace of a standalone broker, to look at beside it: nothing can be
    changed, and entries can be read only if its bookie is registered.
    Errors: ValueError (the URI, or `ledger_servers`); NoNode (it is not bound); NotYetImplemented
    (federated); Unavailable (nobody answers); CorruptData, for servers that are none too.
    """
    at = parse_namespace_uri(uri)
    options, clock = options or NamespaceOptions(), clock or SystemClock()
    async with AsyncExitStack() as stack:
        stores = _Stores(options, at.root, stack)
        store = await stores.first(at, clock)
        binding = await resolve_binding(store, at.root)
        ledger_store = store
        if at.path is None:
            log_hosts, ledger_hosts = _servers(at, binding, options)
            store = await stores.at(log_hosts)
            ledger_store = await stores.at(ledger_hosts)
        bookies = RegisteredBookies(ledger_store, options.bookies, root=binding.bk_ledgers_path)
        stack.push_async_callback(bookies.close)
        config = replace(options.ledgers, root=binding.bk_ledgers_path)
        ledgers = LedgerClient(ledger_store, bookies, config)
        logs = LogNamespace(store, ledgers, options.log, clock, at.root, binding=binding)
        cold = await stack.enter_async_context(
            open_cold_store(options.cold, ledger_store, binding.bk_ledgers_path)
        )
        stack.push_async_callback(logs.close)
        if cold is not None:
            logs.use_cold_storage(cold)
        yield OpenNamespace(at, binding, store, ledger_store, bookies, ledgers, logs, cold)


def _servers(uri: NamespaceUri, bound: BKDLConfig, options: NamespaceOptions) -> tuple[str, str]:
    """Return the servers of the logs and those of the ledgers."""
    if options.ledger_servers:
        return uri.hosts, parse_servers("the servers of the ledgers", options.ledger_servers)
    try:
        logs = parse_servers("the binding", bound.dl_zk_servers_for_writer or uri.hosts)
        return logs, parse_servers("the binding", bound.bk_zk_servers)
    except ValueError as error:
        raise CorruptData(f"namespace {uri.text}: {error}") from error


class _Stores:
    """Connections to metadata, one for each group of servers; closed by the stack."""

    def __init__(self, options: NamespaceOptions, root: str, stack: AsyncExitStack) -> None:
        self._options = options
        self._access = ZookeeperAccess(options.zookeeper, root)
        self._stack = stack
        self._open: dict[frozenset[str], MetadataStore] = {}

    async def first(self, uri: NamespaceUri, clock: Clock) -> MetadataStore:
        if uri.path is None:
            return await self.at(uri.hosts)
        store = SqliteStore(uri.path, clock, read_only=True)
        self._stack.push_async_callback(store.close)
        return store

    async def at(self, hosts: str) -> MetadataStore:
        key = frozenset(hosts.split(","))
        if key not in self._open:
            store = await ZookeeperStore.connect(
                hosts,
                session_timeout_ms=self._options.session_timeout_ms,
                answer_within_ms=self._options.answer_within_ms,
                access=self._access,
            )
            self._stack.push_async_callback(store.close)
            self._open[key] = store
        return self._open[key]
