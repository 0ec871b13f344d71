"""Things with names that a cluster agrees on, one metadata node each: users, access lists, tokens.

Everybody holds all of them in memory, so a look-up never waits. A change reads the nodes, writes
them in one `multi` with the versions that it saw, and is in force here before it is answered; other
processes hear of it by their watches. There is no half-done state, whenever a process is killed.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, Generic, NamedTuple, TypeAlias, TypeVar

from tailrace.core.errors import BadVersion, CorruptData, MetadataConflict, NodeExists, NoNode
from tailrace.core.metadata.child_watch import ChildWatch
from tailrace.core.metadata.entity_nodes import entity_name, entity_node
from tailrace.core.metadata.node_reads import read_nodes
from tailrace.core.metadata.store import Check, Create, Delete, MetadataStore, Node, Op, SetData
from tailrace.core.runtime.listeners import tell
from tailrace.core.runtime.loop_turns import LoopTurns, Pace

logger = logging.getLogger(__name__)

T = TypeVar("T")

ATTEMPTS_MAX: Final = 10
"""How often a change is tried against others of the same entities."""
PAUSE_S: Final = 0.001
"""Before the second attempt, twice as long before each later one: half a second in all."""
NAME_UNIT: Final = 100
"""Of so many characters one unit of work is to make a path."""
DATA_UNIT: Final = 500
"""Of so many bytes one unit of work is to read or write a value."""


class EntityCodec(NamedTuple, Generic[T]):
    """How a value lies in its node."""

    encode: Callable[[T], bytes]
    decode: Callable[[str, bytes], T]
    """From path and data. Errors: CorruptData."""


async def pause_before(attempt: int) -> None:
    """Let others finish that change the same things one after the other. `attempt`: from 0."""
    if attempt:
        await asyncio.sleep(PAUSE_S * (1 << attempt - 1))


Change: TypeAlias = Callable[[T | None], T | None]
"""From what an entity has to what it gets, None for nothing; it may raise, and run twice."""


class StoredEntities(Generic[T]):
    """The entities below one node. Look-ups are plain calls. All calls come from the loop."""

    def __init__(self, store: MetadataStore, parent: str, codec: EntityCodec[T]) -> None:
        self._store = store
        self._parent = parent
        self._codec = codec
        self._values: dict[str, T] = {}
        self._listeners: list[Callable[[str], None]] = []
        self._watch: ChildWatch | None = None

    def listen(self, listener: Callable[[str], None]) -> None:
        """Tell `listener` the name of each entity that changes from now on."""
        self._listeners.append(listener)

    async def start(self) -> None:
        """Read everything, then follow what others change. Errors: Unavailable.

        A node that cannot be read is left out, with a log line: whoever it speaks of has nothing.
        """
        try:
            await self._store.create(self._parent, parents=True)
        except NodeExists:
            logger.debug("entities are there path=%s", self._parent)
        nodes = await self._store.children(self._parent)
        found = await read_nodes(self._store, [f"{self._parent}/{node}" for node in nodes])
        for name, node in zip(map(entity_name, nodes), found, strict=True):
            try:
                self._take(name, self._decoded(self._path(name), node))
            except CorruptData as error:
                logger.error("entity_unreadable name=%r error=%s", name, error)  # noqa: TRY400
        self._watch = ChildWatch(self._store, self._parent, self._note, nodes)
        self._watch.start()

    async def close(self) -> None:
        """Follow no more. Idempotent."""
        if self._watch is not None:
            await self._watch.close()

    def get(self, name: str) -> T | None:
        """Return what is known of an entity."""
        return self._values.get(name)

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names of all entities, in no order."""
        return iter(self._values)

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._values)

    async def read(self, names: Sequence[str], pace: Pace) -> dict[str, T | None]:
        """Return what some entities have now, which a look-up may not find yet. Errors: CoreError.

        `pace`: of the request. Cost: a round trip for each 128.
        """
        paths = await self._paths(names, pace)
        nodes = await read_nodes(self._store, paths)
        found: dict[str, T | None] = {}
        for name, path, node in zip(names, paths, nodes, strict=True):
            found[name] = self._decoded(path, node)
            await pace.spend(_units_of(node))
        return found

    async def change(self, changes: Mapping[str, Change[T]], pace: Pace | None = None) -> None:
        """Change entities, all of them or none. `pace`: of the request, if it may be long.

        Errors: what a change raises; MetadataConflict when others changed them again and again;
        OverCapacity for more than one `multi` takes; CoreError. Cancel: it happened or not.
        """
        pace = pace or Pace(LoopTurns())
        paths = await self._paths(changes, pace)
        for attempt in range(ATTEMPTS_MAX):
            await pause_before(attempt)
            made: dict[str, _Made[T]] = {}
            ops: list[Op] = []
            nodes = await read_nodes(self._store, paths)
            for (name, change), path, node in zip(changes.items(), paths, nodes, strict=True):
                value = change(self._decoded(path, node))
                needed = list(self._op(path, value, node))
                ops += needed
                made[name] = _Made(value, _units_of(node, *needed))
                await pace.spend(2 * made[name].units)
            try:
                if ops:
                    await self._store.multi(ops)
            except (BadVersion, NodeExists, NoNode):
                continue
            await self._take_all(made, pace)
            return
        raise MetadataConflict(f"{self._parent}: others change the same entities")

    def _op(self, path: str, value: T | None, node: Node | None) -> Iterator[Op]:
        if value is None:
            if node is not None:
                yield Delete(path, node.version)
            return
        data = self._codec.encode(value)
        if node is None:
            yield Create(path, data)
        elif data != node.data:
            yield SetData(path, data, node.version)
        else:
            yield Check(path, node.version)  # what was read may be old

    def _path(self, name: str) -> str:
        return f"{self._parent}/{entity_node(name)}"

    async def _paths(self, names: Iterable[str], pace: Pace) -> list[str]:
        paths = []
        for name in names:
            paths.append(self._path(name))
            await pace.spend(1 + len(paths[-1]) // NAME_UNIT)
        return paths

    def _decoded(self, path: str, node: Node | None) -> T | None:
        return None if node is None else self._codec.decode(path, node.data)

    async def _note(self, child: str) -> None:
        name = entity_name(child)
        try:
            path = self._path(name)
            value = self._decoded(path, await self._store.exists(path))
        except CorruptData:
            self._take(name, None)  # what it said before may be what somebody took away
            raise
        self._take(name, value)

    async def _take_all(self, made: "Mapping[str, _Made[T]]", pace: Pace) -> None:
        """Take values at once; have listeners hear of each, all before it returns or is cancelled.

        A listener finds the newest value, so what came in between does not get lost.
        """
        changed = iter([name for name, each in made.items() if self._has_taken(name, each.value)])
        try:
            for name in changed:
                self._tell(name)
                await pace.spend(made[name].units)
        finally:
            for name in changed:
                self._tell(name)

    def _take(self, name: str, value: T | None) -> None:
        if self._has_taken(name, value):
            self._tell(name)

    def _has_taken(self, name: str, value: T | None) -> bool:
        """Take a value; return whether it is another one."""
        if self._values.get(name) == value:
            return False
        if value is None:
            del self._values[name]
        else:
            self._values[name] = value
        return True

    def _tell(self, name: str) -> None:
        for listener in self._listeners:
            tell("entities", listener, name)


class _Made(NamedTuple, Generic[T]):
    """What an entity has, and what it takes to read, write or use that."""

    value: T | None
    units: int


def _units_of(node: Node | None, *ops: Op) -> int:
    data = [] if node is None else [node.data]
    data += [op.data for op in ops if isinstance(op, Create | SetData)]
    return 1 + sum(map(len, data)) // DATA_UNIT
