"""Reading a ledger through once, by nobody else's pace: what recovery and tools do."""

from collections.abc import AsyncGenerator

from tailrace.core.log.context import LogContext
from tailrace.core.log.read_ahead import ReadAhead
from tailrace.core.log.segment_ledger import SegmentLedger
from tailrace.core.log.shared_entries import SharedEntries
from tailrace.core.runtime.tasks import Tasks
from tailrace.protocol.bookkeeper.entry import Entry
from tailrace.protocol.ids import EntryId


async def scan_ledger(
    ledger: SegmentLedger, first: EntryId, context: LogContext
) -> AsyncGenerator[list[Entry], None]:
    """Yield the confirmed entries from `first` on, in order, some at a time, the next on their way.

    Close it (`aclosing`) when it is left early. Errors: as SegmentLedger.read.
    """
    config = context.config
    last = ledger.last_confirmed
    tasks = Tasks("log.scan")
    shared = SharedEntries(context.entries)
    place = shared.join((0, last + 1))  # keeps nothing behind the scan
    try:
        ahead = ReadAhead(0, ledger, first, config, shared)
        while entries := await ahead.read(last, config.read_ahead_bytes):
            ahead.ask_ahead(last, tasks)
            yield entries
    finally:
        await tasks.close()
        shared.leave(place)
