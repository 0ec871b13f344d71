"""Things with names that a cluster agrees on, one metadata node each: users, access lists, tokens.

Everybody holds all of them in memory, so a look-up never waits. A change reads the nodes, writes
them in one `multi` with the versions that it saw, and is in force here before it is answered; other
processes hear of it by their watches. There is no half-done state, whenever a process is killed.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, Generic, NamedTuple, TypeAlias, TypeVar

from tailrace.core.errors import BadVersion, CorruptData, MetadataConflict, NodeExists, NoNode
from tailrace.core.metadata.child_watch import ChildWatch
from tailrace.core.metadata.entity_nodes import entity_name, entity_node
from tailrace.core.metadata.node_reads import read_nodes
from tailrace.core.metadata.store import Create, Delete, MetadataStore, Node, Op, SetData
from tailrace.core.runtime.listeners import tell
from tailrace.core.runtime.loop_turns import LoopTurns, Pace

logger = logging.getLogger(__name__)

T = TypeVar("T")

ATTEMPTS_MAX: Final = 10
"""How often a change is tried against others of the same entities."""
PAUSE_S: Final = 0.001
"""Before the second attempt, twice as long before each later one: half a second in all."""
CHANGE_UNITS: Final = 3
"""What it takes to read, change and write one entity."""


class EntityCodec(NamedTuple, Generic[T]):
    """How a value lies in its node."""

    encode: Callable[[T], bytes]
    decode: Callable[[str, bytes], T]
    """From path and data. Errors: CorruptData."""


async def pause_before(attempt: int) -> None:
    """Let others finish, who change the same things one after the other. `attempt`: from 0."""
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
                self._take(name, self._decoded(name, node))
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

    async def read(self, names: Sequence[str]) -> dict[str, T | None]:
        """Return what some entities have now; a look-up finds it from here on. Errors: CoreError.

        Cost: a round trip for each 128.
        """
        nodes = await read_nodes(self._store, [self._path(name) for name in names])
        found = {name: self._decoded(name, node) for name, node in zip(names, nodes, strict=True)}
        for name, value in found.items():
            self._take(name, value)
        return found

    async def change(self, changes: Mapping[str, Change[T]], pace: Pace | None = None) -> None:
        """Change entities, all of them or none. `pace`: of the request, if it may be long.

        Errors: what a change raises; MetadataConflict when others changed them again and again;
        OverCapacity for more than one `multi` takes; CoreError. Cancel: it happened or not.
        """
        pace = pace or Pace(LoopTurns())
        for attempt in range(ATTEMPTS_MAX):
            await pause_before(attempt)
            made: dict[str, T | None] = {}
            ops: list[Op] = []
            paths = [self._path(name) for name in changes]
            nodes = await read_nodes(self._store, paths)
            found = zip(changes.items(), paths, nodes, strict=True)
            async for (name, change), path, node in pace.each(found, CHANGE_UNITS):
                value = made[name] = change(self._decoded(name, node))
                ops.extend(self._op(path, value, node))
            try:
                if ops:
                    await self._store.multi(ops)
            except (BadVersion, NodeExists, NoNode):
                continue
            for name, value in made.items():
                self._take(name, value)
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

    def _path(self, name: str) -> str:
        return f"{self._parent}/{entity_node(name)}"

    def _decoded(self, name: str, node: Node | None) -> T | None:
        return None if node is None else self._codec.decode(self._path(name), node.data)

    async def _note(self, child: str) -> None:
        name = entity_name(child)
        try:
            value = self._decoded(name, await self._store.exists(self._path(name)))
        except CorruptData:
            self._take(name, None)  # what it said before may be what somebody took away
            raise
        self._take(name, value)

    def _take(self, name: str, value: T | None) -> None:
        if self._values.get(name) == value:
            return
        if value is None:
            del self._values[name]
        else:
            self._values[name] = value
        for listener in self._listeners:
            tell("entities", listener, name)
