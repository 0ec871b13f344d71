"""What the metadata says of segments in cold storage: one node each, below `<default>/cold`.

A node of our own, because DistributedLog's segment node is deleted with the ledger: Java's readers
then see a log that begins later, as after any purge, and never a segment without a ledger. The node
keeps the segment's DistributedLog metadata, so that our list of segments is the union of both.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from tailrace.core.errors import CorruptData, NoNode
from tailrace.core.metadata.layout import LogPaths
from tailrace.core.metadata.node_reads import read_nodes
from tailrace.core.metadata.segment_metadata import SegmentMetadata, decode_segment, encode_segment
from tailrace.core.metadata.store import MetadataStore
from tailrace.core.runtime.stored_json import NOT_JSON, Natural

NODE_VERSION: Final = 1


class ColdSegment(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One segment in cold storage, as JSON in its node."""

    segment: str
    """Its DistributedLog metadata, as in the segment's own node."""
    name: str
    """The object, relative to the cold store's URL."""
    size_bytes: Natural
    index_at: Natural
    """Where the object's index begins; it reaches to the trailer."""
    crc32c: Natural
    """Of header and blocks."""
    payload_bytes: Natural
    """Of the ledger: what BookKeeper calls its length."""
    version: Natural = NODE_VERSION

    @property
    def metadata(self) -> SegmentMetadata:
        """The segment's metadata. Errors: CorruptData."""
        return decode_segment(self.segment.encode())

    @property
    def prefix(self) -> str:
        """What the names of all objects of this segment and ledger begin with."""
        return self.name.rpartition("-")[0] + "-"

    def is_copy_of(self, segment: SegmentMetadata) -> bool:
        """Tell whether it is a copy of the ledger that a segment has. Errors: CorruptData."""
        return self.metadata.ledger_id == segment.ledger_id

    def with_metadata(self, metadata: SegmentMetadata) -> "ColdSegment":
        """Return the same with changed metadata: truncation."""
        return msgspec.structs.replace(self, segment=encode_segment(metadata).decode())


def encode_cold(cold: ColdSegment) -> bytes:
    """Return the data of a node."""
    return msgspec.json.encode(cold)


def decode_cold(data: bytes, path: str) -> ColdSegment:
    """Read the data of a node. Errors: CorruptData; for a later version too."""
    try:
        cold = msgspec.json.decode(data, type=ColdSegment)
    except NOT_JSON as error:
        raise CorruptData(f"{path}: {error}") from error
    if cold.version != NODE_VERSION:
        raise CorruptData(f"{path} is of version {cold.version}, known is {NODE_VERSION}")
    return cold


async def read_cold(
    store: MetadataStore, paths: LogPaths, lssns: Iterable[int] | None = None
) -> dict[int, ColdSegment]:
    """Return segments in cold storage by LSSN: those of `lssns`, or all. Errors: CorruptData.

    Cost: one read if there are none; else one more for each, side by side.
    """
    if lssns is None:
        try:
            names = await store.children(paths.cold)
        except NoNode:
            return {}
        wanted = [f"{paths.cold}/{name}" for name in names]
    else:
        wanted = [paths.cold_segment(lssn) for lssn in lssns]
    nodes = await read_nodes(store, wanted)
    found = [
        decode_cold(node.data, path)
        for path, node in zip(wanted, nodes, strict=True)
        if node is not None
    ]
    return {cold.metadata.lssn: cold for cold in found}
