"""A log as it lies there, for somebody who does not open it.

Nothing is claimed, watched, mended or kept: an owner elsewhere is not disturbed, and a look leaves
nothing behind in this process. What is seen may change at once, unless nobody writes the log.
"""

from tailrace.core.errors import NoNode
from tailrace.core.log.context import LogContext
from tailrace.core.log.ownership import read_members
from tailrace.core.log.recovery import if_readable, read_index
from tailrace.core.log.segment_nodes import read_segments
from tailrace.core.log.segments import SegmentList
from tailrace.core.log.tiered import open_segment
from tailrace.core.metadata.layout import LogPaths
from tailrace.core.metadata.segment_metadata import SegmentMetadata


class StoredLog:
    """One log; made by `LogNamespace.stored_log`. Cost: nothing until it is asked."""

    def __init__(self, name: str, paths: LogPaths, context: LogContext) -> None:
        self.name = name
        self._paths = paths
        self._context = context

    async def segments(self) -> SegmentList:
        """Return its segments, oldest first. Errors: LogNotFound, CorruptData.

        Cost: one read, and one for each segment.
        """
        return await read_segments(self._context.store, self._paths)

    async def get_data(self) -> bytes:
        """Return what the application keeps with the log. Errors: NoNode."""
        return (await self._context.store.get(self._paths.log)).data

    async def has_owner(self) -> bool:
        """Tell whether somebody writes it, or waits to. Errors: CoreError."""
        return await self._has_children(self._paths.lock)

    async def owner(self) -> str:
        """Return the client id of who writes it, empty for nobody. Errors: CoreError."""
        try:
            members = await read_members(self._context.store, self._paths.lock)
        except NoNode:
            return ""
        return members[0].client_id if members else ""

    async def is_being_purged(self) -> bool:
        """Tell whether segments that it had wait to be deleted. Errors: CoreError."""
        return await self._has_children(self._paths.purged)

    async def index_of(self, segment: SegmentMetadata) -> tuple[bytes | None, int]:
        """Return what a completed segment's index record says, and the segment's bytes.

        None: it has none, or none that can be read. Errors: LedgerNotFound, BookieUnavailable.
        Cost: two reads.
        """
        ledger = await open_segment(segment, self._paths, self._context)
        found = await if_readable(read_index(segment, ledger), segment)
        return None if found is None else found.segment_index, ledger.length

    async def _has_children(self, path: str) -> bool:
        try:
            return bool(await self._context.store.children(path))
        except NoNode:
            return False
