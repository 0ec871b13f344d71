"""A node that remembers a new ledger until a segment takes it.

Invariant: every change names the version that we know, so of two users at most one gets through,
and a change of ours that is still on its way fails once a later one of ours is done.
Source: reference DistributedLog 5.7.
"""

from core.errors import CorruptData
from core.metadata.store import MetadataStore, Node, SetData
from protocol.ids import LedgerId


class AllocationNode:
    """One such node, in the hands of one user; as `node` was when it was read."""

    def __init__(self, store: MetadataStore, path: str, node: Node | None = None) -> None:
        """`node`: None for one that was just made. Errors: CorruptData."""
        self.path = path
        self._store = store
        self._version = 0 if node is None else node.version
        self.leftover: LedgerId | None = None
        """A ledger that a crash left here. No segment has it once `record` succeeded."""
        if node is not None and node.data:
            self.leftover = _ledger_id(node.data, path)

    async def record(self, ledger_id: LedgerId) -> None:
        """Remember a new ledger. Errors: BadVersion, NoNode: somebody else uses the node."""
        self._version = await self._store.set(self.path, str(ledger_id).encode(), self._version)

    async def clear(self) -> None:
        """Forget the ledger: it was deleted. Errors: BadVersion, NoNode."""
        self._version = await self._store.set(self.path, b"", self._version)

    def handover(self) -> SetData:
        """Return the part of the multi that starts a segment with the ledger."""
        return SetData(self.path, b"", self._version)

    def handed_over(self) -> None:
        """Hear that this multi is done."""
        self._version += 1


def _ledger_id(data: bytes, path: str) -> LedgerId:
    try:
        return LedgerId(int(data.decode("ascii")))
    except ValueError:
        raise CorruptData(f"{path} holds {data[:40]!r}, not a ledger") from None
