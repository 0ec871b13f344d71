"""Looking at a log: what of it can be cleaned now."""

from tailrace.compaction.cleaner.choosing import Look, judge
from tailrace.compaction.cleaner.cleanable import CleanableLog


async def look_at(log: CleanableLog, now_ms: int) -> Look:
    """Say what of a log can be cleaned now. Errors: CoreError."""
    segments = await log.segments()
    noted = (await log.checkpoint()).first_dirty_offset
    offsets = log.log_start_offset, noted, log.last_stable_offset
    return judge(log.name, segments, log.settings, offsets, now_ms)
