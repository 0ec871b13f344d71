"""What of a log is in cold storage, and whether it is what the metadata says."""

from collections.abc import AsyncIterator
from typing import NamedTuple

from tailrace.core.errors import ColdObjectCorrupt, ColdObjectNotFound
from tailrace.core.log.cold.nodes import ColdSegment, read_cold
from tailrace.core.log.cold.store import ColdStore
from tailrace.core.log.purged import PurgedNodes
from tailrace.core.log.segment_nodes import read_segments
from tailrace.core.metadata.layout import LogPaths
from tailrace.core.metadata.segment_metadata import SegmentMetadata, is_segment_name, segment_name
from tailrace.core.metadata.store import MetadataStore


class TieredSegment(NamedTuple):
    """A segment, and where it is."""

    metadata: SegmentMetadata
    on_bookies: bool
    cold: ColdSegment | None


class Finding(NamedTuple):
    """One object that was looked at."""

    name: str
    lssn: int | None
    """None: no segment names it."""
    problem: str | None
    """None: it verifies, or, of an object that no segment names, it waits for its deletion."""
    payload_bytes: int = 0


async def tiered_segments(store: MetadataStore, paths: LogPaths) -> list[TieredSegment]:
    """Return all segments of a log, oldest first. Errors: LogNotFound, CorruptData."""
    segments = await read_segments(store, paths)
    here = {name for name in await store.children(paths.segments) if is_segment_name(name)}
    cold = await read_cold(store, paths)
    return [
        TieredSegment(each, segment_name(each) in here, cold.get(each.lssn)) for each in segments
    ]


async def verify_log(
    store: MetadataStore, paths: LogPaths, cold_store: ColdStore
) -> AsyncIterator[Finding]:
    """Read every object of a log whole; yield what is found of each.

    Also objects that nothing names: a crash left them, or another process is copying right now.
    Errors: ColdStorageUnavailable; CorruptData of the metadata.
    """
    found = await read_cold(store, paths)
    for lssn, cold in sorted(found.items()):
        try:
            await cold_store.verify(cold)
        except (ColdObjectCorrupt, ColdObjectNotFound) as error:
            yield Finding(cold.name, lssn, f"{type(error).__name__}: {error}")
        else:
            yield Finding(cold.name, lssn, None, cold.payload_bytes)
    going = [note.cold_prefix for _, note in await PurgedNodes(store, paths).notes()]
    prefixes = tuple(prefix for prefix in going if prefix)
    named = {cold.name for cold in found.values()}
    for name in await cold_store.names(paths.log):
        if name not in named:
            waits = bool(prefixes) and name.startswith(prefixes)
            yield Finding(name, None, None if waits else "no segment names it")
