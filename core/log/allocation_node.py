"""A node that remembers a new ledger until a segment takes it.

Invariant: every change names the version that we know, so of two users at most one gets through,
and a change of ours that is still on its way fails once a later one of ours is done. A change whose
answer was lost is looked for before the next one.
Source: reference DistributedLog 5.7.
"""

from tailrace.core.errors import BadVersion, CorruptData, MetadataConflict
from tailrace.core.metadata.store import MetadataStore, Node, SetData
from tailrace.core.runtime.decimal_text import decimal
from tailrace.protocol.ids import LedgerId


class AllocationNode:
    """One such node, in the hands of one user; as `node` was when it was read."""

    def __init__(self, store: MetadataStore, path: str, node: Node | None = None) -> None:
        """`node`: None for one that was just made. Errors: CorruptData."""
        self.path = path
        self._store = store
        self._version = 0 if node is None else node.version
        self._in_doubt: set[bytes] = set()
        self.leftover: LedgerId | None = None
        """A ledger that a crash left here. No segment has it once `record` succeeded."""
        if node is not None and node.data:
            self.leftover = _ledger_id(node.data, path)

    async def record(self, ledger_id: LedgerId) -> None:
        """Remember a new ledger. Errors: BadVersion, NoNode: somebody else uses the node."""
        await self._set(str(ledger_id).encode())

    async def clear(self) -> None:
        """Forget the ledger: it was deleted. Errors: BadVersion, NoNode."""
        await self._set(b"")

    def handover(self) -> SetData:
        """Return the part of the multi that starts a segment with the ledger."""
        return SetData(self.path, b"", self._version)

    def handed_over(self) -> None:
        """Hear that this multi is done."""
        self._version += 1

    async def _set(self, data: bytes) -> None:
        try:
            await self._set_once(data)
        except BadVersion:
            if not self._in_doubt:
                raise
            await self._set_once(data)  # one of ours may have come in between; only one can

    async def _set_once(self, data: bytes) -> None:
        if self._in_doubt:
            await self._find_out()
        try:
            self._version = await self._store.set(self.path, data, self._version)
        except MetadataConflict:
            raise
        except BaseException:  # a cancelled change may happen as well
            self._in_doubt.add(data)
            raise
        self._in_doubt.clear()

    async def _find_out(self) -> None:
        """Adopt the change in doubt that happened, if one did: each of them named our version."""
        node = await self._store.get(self.path)
        if node.version == self._version + 1 and node.data in self._in_doubt:
            self._version = node.version
            self._in_doubt.clear()


def _ledger_id(data: bytes, path: str) -> LedgerId:
    found = decimal(data.decode("latin-1"))
    if found is None:
        raise CorruptData(f"{path} holds {data[:40]!r}, not a ledger")
    return LedgerId(found)
