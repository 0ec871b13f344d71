"""A process that uses logs: it may die at any change that it asks the metadata for."""

import asyncio
import itertools
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from contextvars import ContextVar, copy_context
from random import Random
from typing import TYPE_CHECKING, Any, TypeVar

from typing_extensions import override

from tailrace.core.errors import CoreError
from tailrace.core.ledger.adder import LedgerListener
from tailrace.core.ledger.bookie_registry import RegisteredBookies
from tailrace.core.ledger.client import LedgerClient
from tailrace.core.ledger.config import BookieClientConfig, LedgerConfig
from tailrace.core.ledger.reader import LedgerReader
from tailrace.core.ledger.writer import LedgerWriter
from tailrace.core.log.config import LogConfig
from tailrace.core.log.namespace import LogNamespace
from tailrace.core.log.search import DAMAGED
from tailrace.protocol.bookkeeper.entry import Entry
from tailrace.protocol.ids import Buffer, EntryId, LedgerId
from tailrace.simulation.checkers import Checker, LedgerModel
from tailrace.simulation.machine import Client, draw_client
from tailrace.simulation.process import ProcessDied
from tailrace.simulation.sessions import SimStore

if TYPE_CHECKING:
    from tailrace.simulation.world import World

T = TypeVar("T")


class DyingStore(SimStore):
    """A client of the metadata whose process may die at one of its changes."""

    die: Callable[[str], None]
    changes_left: int | None = None
    """Changes that still get through; None: no end is planned."""
    dies_before = True
    """Whether the last change is never sent; else it is done, and nobody lives to hear of it."""

    @override
    async def _call(
        self,
        what: str,
        path: str,
        run: Callable[[Any], Any],
        *,
        write: bool = False,
        orphan: Any = None,
    ) -> Any:
        is_last = False
        if write and self.changes_left is not None:
            self.changes_left -= 1
            is_last = self.changes_left < 0
        if is_last and self.dies_before:
            self._die(what, path)
        answer = await super()._call(what, path, run, write=write, orphan=orphan)
        if is_last:
            self._die(what, path)
        return answer

    def _die(self, what: str, path: str) -> None:
        self.die(f"{'before' if self.dies_before else 'after'} {what} {path}")
        raise ProcessDied(path)


class LogClient(Client):
    """A process with a namespace of logs."""

    def __init__(self, world: "World", number: int, config: LogConfig, timeout_ms: int) -> None:
        self._log_config = config
        super().__init__(world, number, timeout_ms, timeout_ms)

    dying: DyingStore
    ledgers: "ListenedLedgers"
    namespace: LogNamespace

    @override
    def _build(self, timeout_ms: int, connect_timeout_ms: int) -> None:
        world = self.world
        self.store = self.dying = DyingStore(world.metadata)
        self.dying.die = self.kill
        config = BookieClientConfig(
            connect_timeout_ms=connect_timeout_ms, request_timeout_ms=timeout_ms
        )
        self.bookies = RegisteredBookies(self.store, config)
        self.ledgers = ListenedLedgers(
            self.store,
            self.bookies,
            draw_client(Random(f"{world.seed}/{self.name}/settings")),
            Random(f"{world.seed}/{self.name}"),
        )
        self.ledgers.listen(world.checker, self.name)
        self.namespace = LogNamespace(self.store, self.ledgers, self._log_config, self.clock)


class SearchReads:
    """What came of the reads of one search."""

    def __init__(self) -> None:
        self._got: set[tuple[LedgerId, EntryId]] = set()
        self._failed: Counter[tuple[LedgerId, EntryId]] = Counter()

    async def hear(self, search: Coroutine[Any, Any, T]) -> T:
        """Hear the reads of a search, in a context of its own: tasks of a process share theirs."""
        context = copy_context()
        context.run(_SEARCH.set, self)
        return await asyncio.get_running_loop().create_task(search, context=context)

    def on_read(self, ledger_id: LedgerId, entries: Sequence[Entry]) -> None:
        self._got.update((ledger_id, entry.entry_id) for entry in entries)

    def on_damaged(self, ledger_id: LedgerId, entry_id: EntryId) -> None:
        self._failed[ledger_id, entry_id] += 1

    def is_hidden(self, ledger_id: LedgerId, entry_id: EntryId) -> bool:
        """Whether an entry was asked for alone, twice at least, and never came."""
        key = (ledger_id, entry_id)
        return self._failed[key] > 1 and key not in self._got


_SEARCH: ContextVar[SearchReads] = ContextVar("search")
"""Whose reads these are: tasks inherit it from who began the search."""


class _ListenedReader:
    """A ledger's reader that tells a search's reads."""

    def __init__(self, reader: LedgerReader) -> None:
        self._reader = reader

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reader, name)

    async def read(self, first: EntryId, last: EntryId, **more: Any) -> list[Entry]:
        search = _SEARCH.get(None)
        try:
            entries = await self._reader.read(first, last, **more)
        except DAMAGED:
            if search is not None and first == last:
                search.on_damaged(self._reader.ledger_id, first)
            raise
        if search is not None:
            search.on_read(self._reader.ledger_id, entries)
        return entries


class ListenedLedgers(LedgerClient):
    """The ledgers that logs use: the checker of ledgers hears what becomes of each."""

    def listen(self, checker: Checker, name: str) -> None:
        self._checker = checker
        self._name = name
        self._numbers = itertools.count()
        self._opened: list[tuple[LedgerModel, str, LedgerReader]] = []

    @override
    async def create_ledger(
        self,
        config: LedgerConfig,
        listener: LedgerListener,
        *,
        ledger_id: LedgerId | None = None,
    ) -> LedgerWriter:
        ears = _Ears(self._checker, listener)
        writer = await super().create_ledger(config, ears, ledger_id=ledger_id)
        ears.model = model = self._checker.ledgers[writer.ledger_id]
        model.writer = self._name
        return _ListenedWriter(writer, model)  # type: ignore[return-value]

    @override
    async def open_ledger(self, ledger_id: LedgerId, *, recover: bool, **more: Any) -> LedgerReader:
        reader = await super().open_ledger(ledger_id, recover=recover, **more)
        model = self._checker.ledgers[ledger_id]
        self._opened.append((model, f"{self._name}.{next(self._numbers)}", reader))
        del self._opened[:-20]
        return _ListenedReader(reader)  # type: ignore[return-value]

    def look(self) -> None:
        """Have the checker see how far each of the last readers may read."""
        for model, name, reader in self._opened:
            self._checker.on_reader_lac(model, name, reader.last_confirmed)


class _Ears:
    """A listener between the ledger and the log."""

    model: LedgerModel

    def __init__(self, checker: Checker, listener: LedgerListener) -> None:
        self._checker = checker
        self._listener = listener

    def on_confirmed(self, lac: EntryId) -> None:
        self._checker.on_confirmed(self.model, lac)
        self._listener.on_confirmed(lac)

    def on_failed(self, error: CoreError) -> None:
        self._listener.on_failed(error)


class _ListenedWriter:
    """A ledger's writer that tells the model what is added."""

    def __init__(self, writer: LedgerWriter, model: LedgerModel) -> None:
        self._writer = writer
        self._model = model

    def __getattr__(self, name: str) -> Any:
        return getattr(self._writer, name)

    def add(self, payload: Sequence[Buffer]) -> EntryId:
        model = self._model
        before = model.length(model.pushed)
        model.pushed += 1
        model.lengths.append(before + sum(len(part) for part in payload))
        try:
            return self._writer.add(payload)
        except CoreError:
            model.pushed -= 1
            model.lengths.pop()
            raise
