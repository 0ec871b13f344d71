"""Producer ids for idempotent producers: unique for ever, handed out in blocks.

Invariant: a block is on disk as taken before the first id of it is given, so a killed process loses
the rest of its block and never gives an id twice. Source: reference Kafka 4.3; ProducerIdManager.
"""

import asyncio

import msgspec

from tailrace.broker.cluster.paths import ClusterPaths
from tailrace.core.errors import BadVersion, CorruptData, NodeExists
from tailrace.core.metadata.store import MetadataStore
from tailrace.core.runtime.stored_json import NOT_JSON, Natural

BLOCK = 1000


class _Stored(msgspec.Struct, forbid_unknown_fields=True):
    """The node's JSON."""

    version: Natural = 1
    next_id: Natural = 0


class ProducerIds:
    """The ids that this broker may give."""

    def __init__(self, store: MetadataStore, paths: ClusterPaths | None = None) -> None:
        self._store = store
        self._path = (paths or ClusterPaths()).producer_ids
        self._next = 0
        self._end = 0
        self._taking = asyncio.Lock()

    async def take(self) -> int:
        """Return an id that nobody ever had. Errors: CoreError."""
        while self._next == self._end:
            async with self._taking:
                if self._next == self._end:  # nobody took a block while we waited
                    self._next = await self._take_block()
                    self._end = self._next + BLOCK
        taken = self._next
        self._next += 1
        return taken

    async def _take_block(self) -> int:
        """Claim the next block; other brokers may do the same at the same time."""
        while True:
            try:
                return await self._try_block()
            except (BadVersion, NodeExists):
                continue

    async def _try_block(self) -> int:
        node = await self._store.exists(self._path)
        if node is None:
            await self._store.create(self._path, _encode(BLOCK), parents=True)
            return 0
        try:
            first = msgspec.json.decode(node.data, type=_Stored).next_id
        except NOT_JSON as error:
            raise CorruptData(f"{self._path}: {error}") from error
        await self._store.set(self._path, _encode(first + BLOCK), node.version)
        return first


def _encode(next_id: int) -> bytes:
    return msgspec.json.encode(_Stored(next_id=next_id))
