"""What a rewrite changes in the metadata, segment by segment: what it found, and the swap's ops.

A segment that the bookies have gets a new node with a new ledger. One that is in cold storage only
stays there, and so Java's readers never see a hole before it: its new ledger is copied to an
object, and the multi that names the object in the place of the old one notes that ledger too. The
new object needs no note of its own: the ledger's note names its prefix as well.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from tailrace.core.errors import (
    BadVersion,
    CannotRewrite,
    ColdStorageDisabled,
    MetadataConflict,
)
from tailrace.core.ledger.entry_limit import entry_limit_of
from tailrace.core.log.cold.nodes import ColdSegment, decode_cold, encode_cold
from tailrace.core.log.cold.store import ColdStore
from tailrace.core.log.cold.verify import entry_bytes_in, read_frame
from tailrace.core.log.context import LogContext
from tailrace.core.log.noted_ledger import NotedLedger
from tailrace.core.log.purged import PurgedNodes
from tailrace.core.log.rewrite_source import read_source
from tailrace.core.log.segment_copy import CopySource
from tailrace.core.metadata.layout import LogPaths
from tailrace.core.metadata.node_reads import read_nodes
from tailrace.core.metadata.segment_metadata import (
    SegmentMetadata,
    decode_segment,
    encode_segment,
    segment_name,
)
from tailrace.core.metadata.store import Create, Delete, Node, Op
from tailrace.protocol.distributedlog.record import END_OF_STREAM_TXID


class Found(NamedTuple):
    """A segment as it was read when the rewrite began."""

    node: Node
    """Its own, or that of its copy if `is_cold`."""
    is_cold: bool
    """Whether it is in cold storage only."""
    source: CopySource


class Now(NamedTuple):
    """A segment's nodes, as they are when it is swapped."""

    node: Node | None
    cold: Node | None
    is_swapped: bool


class SwapNodes:
    """The nodes of one log's segments, as a rewrite changes them."""

    def __init__(self, paths: LogPaths, context: LogContext, purged: PurgedNodes) -> None:
        self._paths = paths
        self._context = context
        self._purged = purged

    async def find(self, known: SegmentMetadata) -> Found:
        """Return what a completed segment is before it is rewritten.

        Errors: MetadataConflict: it is gone or not completed; CannotRewrite: the end of a sealed
        log, a segment without a number; ColdStorageDisabled; CoreError. Cost: two or three entries.
        """
        where = f"segment {known.lssn} of {self._paths.log}"
        cold_path = self._paths.cold_segment(known.lssn)
        node, cold = await read_nodes(self._context.store, [self.path(known), cold_path])
        if node is not None:
            found, segment = node, decode_segment(node.data)
        elif cold is not None:
            found, segment = cold, decode_cold(cold.data, cold_path).metadata
            self.cold_store(where)
        else:
            raise MetadataConflict(f"{where} is not there (any more)")
        if segment.in_progress:
            raise MetadataConflict(f"{where} is still written")
        if segment.lssn != known.lssn:
            raise CannotRewrite(f"{where} has no number: tailrace log check")
        if segment.last_txid == END_OF_STREAM_TXID:
            raise CannotRewrite(f"{where} is the end of a sealed log")
        named = replace(segment, node_name=known.node_name)
        source = await read_source(named, self._paths, self._context)
        return Found(found, node is None, source)

    async def read(self, wanted: Sequence[SegmentMetadata]) -> list[Now]:
        """Return the nodes of segments. Errors: CorruptData."""
        cold_paths = [self._paths.cold_segment(each.lssn) for each in wanted]
        nodes = await read_nodes(self._context.store, [*map(self.path, wanted), *cold_paths])
        here, cold = nodes[: len(wanted)], nodes[len(wanted) :]
        return [
            Now(node, copy, _has_ledger(node, copy, segment))
            for segment, node, copy in zip(wanted, here, cold, strict=True)
        ]

    def ends(self, found: Found, now: Now) -> list[Op]:
        """Return what takes a segment away as it was. Errors: BadVersion."""
        old = found.source.metadata
        is_cold = now.node is None
        node = now.cold if is_cold else now.node
        if node is None or is_cold != found.is_cold or node.data != found.node.data:
            raise BadVersion(f"segment {old.lssn} of {self._paths.log} was changed meanwhile")
        ops: list[Op] = []
        if now.node is not None:
            ops += (
                Delete(self.path(old), now.node.version),
                self._purged.note_ledger(old.ledger_id, self._due_ms()),
            )
        if now.cold is not None:  # a copy of what is no more
            cold_path = self._paths.cold_segment(old.lssn)
            prefix = decode_cold(now.cold.data, cold_path).prefix
            ops += (
                Delete(cold_path, now.cold.version),
                self._purged.note_cold(prefix, self._due_ms()),
            )
        return ops

    def becomes(
        self, old: SegmentMetadata, new: SegmentMetadata, made: ColdSegment | None
    ) -> list[Op]:
        """Return what puts a new ledger in the place of the old one.

        `made`: its copy in cold storage, if nothing else is to be left of it.
        """
        if made is None:
            return [Create(self.path(old), encode_segment(new))]
        return [
            Create(self._paths.cold_segment(new.lssn), encode_cold(made)),
            self._purged.note_ledger(new.ledger_id, self._due_ms()),
        ]

    async def entry_bytes(self, found: Found) -> int:
        """Return how large a segment's entries may be. Errors: LedgerNotFound; of cold storage."""
        old = found.source.metadata
        if not found.is_cold:
            metadata = await self._context.ledgers.ledger_metadata(old.ledger_id)
            return entry_limit_of(metadata.custom)
        cold = decode_cold(found.node.data, self._paths.cold_segment(old.lssn))
        return entry_bytes_in((await read_frame(cold.name, self.cold_store().objects)).blocks)

    async def copy_to_cold(self, new: SegmentMetadata, ledger: NotedLedger) -> ColdSegment:
        """Copy a segment's new ledger, which is closed. Errors: as ColdStore.copy.

        MetadataConflict: somebody took the ledger for a leftover; nothing is left then.
        """
        store = self.cold_store()
        source = await self._context.ledgers.open_ledger(new.ledger_id, recover=False)
        made = await store.copy(self._paths.log, new, source)
        if not await self._purged.is_new(ledger.ledger_id):  # its objects went before this one came
            await store.delete(made.prefix)
            raise MetadataConflict(f"ledger {ledger.ledger_id} was taken for a leftover")
        return made

    def cold_store(self, where: str = "") -> ColdStore:
        """Return cold storage. Errors: ColdStorageDisabled."""
        store = self._context.cold
        if store is None:
            raise ColdStorageDisabled(
                f"{where or self._paths.log} is in cold storage: set cold.storage.url to rewrite it"
            )
        return store

    def path(self, segment: SegmentMetadata) -> str:
        """Return where a segment's node is, if the bookies have it."""
        return self._paths.segment(segment_name(segment))

    def _due_ms(self) -> int:
        return self._context.clock.now_ms() + self._context.config.delete_delay_ms


def _has_ledger(node: Node | None, cold: Node | None, segment: SegmentMetadata) -> bool:
    if node is not None:
        return decode_segment(node.data).ledger_id == segment.ledger_id
    return cold is not None and decode_cold(cold.data, "").is_copy_of(segment)
