"""What the partitions of a broker hold by key: exact counts, and the latest record of each key.

A view of a partition is made by the first question and kept up by later ones, which read only what
was written since: the head, and of the tail what nobody counted. Segments that the cleaner wrote
say themselves how many records and delete markers they hold. From the log start to the last stable
offset of the moment; aborted records and markers do not count.

Bounds: one question reads `Allowance` bytes, then answers as far as it got and says so; all views
share `bytes_max`, and the one that was asked longest ago goes first. One question at a time.

As any reader of a compacted topic, a view learns that a key was deleted from its marker, which the
cleaner may drop `delete.retention.ms` after it was written. A view that was not brought up for so
long is made anew, if the cleaner was there meanwhile.
"""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Final, NamedTuple

import numpy as np

from tailrace.broker.partition.latest import InThread, LatestRecord, pick_records
from tailrace.broker.partition.partition_log import PartitionLog
from tailrace.broker.partition.view_reads import Allowance, SegmentReads, spans_of
from tailrace.compaction.cleaner.errors import CorruptBatch
from tailrace.compaction.cleaner.key_summary import Offsets
from tailrace.compaction.views.latest_offsets import SMALLEST_BYTES, LatestOffsets
from tailrace.compaction.views.log_view import LogView, Span
from tailrace.compaction.views.walk import Wanted
from tailrace.core.errors import CorruptData
from tailrace.core.runtime.clock import Clock
from tailrace.protocol.ids import Offset, TopicPartition

RECORDS_BYTES_MAX: Final = 16 * 1024 * 1024
"""Keys and values of one answer, if a single one is not larger."""


class Counted(NamedTuple):
    """What a partition holds, as far as it was read."""

    end_offset: Offset
    """The last stable offset: records behind it are not decided."""
    records: int
    tombstones: int
    keyless: int
    live_keys: int | None
    """Keys whose latest record has a value; None: not known, `bound` says why."""
    unread_offsets: int
    """Offsets that further questions read."""
    bound: str | None
    """Which part is not exact, and why."""


class Latest(NamedTuple):
    """The latest records of keys, in offset order."""

    records: Sequence[LatestRecord]
    is_whole: bool
    """Whether these are all that were asked for."""
    unread_offsets: int
    bound: str | None


class _Held(NamedTuple):
    """A view, and since when delete markers may be missing that it never read."""

    log: PartitionLog
    view: LogView
    whole_ms: int
    """When the question was asked that last read all keys; at first, when it was made."""
    rewrites: int
    """What `Log.rewrites` said then."""

    def knows_deletes(self, now_ms: int) -> bool:
        """Tell whether every delete marker that is new is still there to be read."""
        if self.rewrites == self.log.log.rewrites:
            return True
        return now_ms - self.whole_ms < self.log.settings.delete_retention_ms


class PartitionViews:
    """The views of a broker's partitions. Memory: `bytes_max`, 24 bytes a key, half of it full."""

    def __init__(self, in_thread: InThread, bytes_max: int, clock: Clock) -> None:
        self._in_thread = in_thread
        self._bytes_max = bytes_max
        self._clock = clock
        self._views: OrderedDict[TopicPartition, _Held] = OrderedDict()
        self._turn = asyncio.Lock()
        self._is_cut_off = False
        """Whether the last question was not answered: its work may still run in the thread."""

    async def count(self, log: PartitionLog, allowance: Allowance) -> Counted:
        """Count a partition's records and keys. Errors: CoreError. Cancel: it is made anew."""
        async with self._question():
            view, spans = await self._brought_up(log, allowance, counts=True)
            live = None
            if not view.is_full:
                live = await self._in_thread(partial(view.latest.live, view.first))
            return _counted(view, spans, live)

    async def latest(
        self, log: PartitionLog, limit: int, key: bytes | None, allowance: Allowance
    ) -> Latest:
        """Return the latest record of a key, or of `limit` keys, the first ones in the log.

        A deleted key's record is shown as long as the log has it. Errors, Cancel: as above.
        """
        async with self._question():
            view, spans = await self._brought_up(log, allowance, counts=False)
            end = spans[-1].end if spans else view.end
            if view.end < end:
                unread = 0 if view.is_full else end - view.end
                bound = _full(view) if view.is_full else _unread(unread)
                return Latest((), is_whole=False, unread_offsets=unread, bound=bound)
            if key is None:
                offsets = await self._in_thread(partial(view.latest.offsets, view.first))
            else:
                found = view.latest.find(key)
                at = [found.offset] if found and found.offset >= view.first else []
                offsets = np.array(at, np.int64)
            return await self._records(log, offsets, limit)

    @asynccontextmanager
    async def _question(self) -> AsyncIterator[None]:
        """Have views to oneself, also against what a cancelled question left running."""
        async with self._turn:
            if self._is_cut_off:
                await self._in_thread(_nothing)
            self._is_cut_off = True
            yield
            self._is_cut_off = False

    async def _records(self, log: PartitionLog, offsets: Offsets, limit: int) -> Latest:
        """Read the records at these offsets, as far as they are there, wanted and not too far."""
        found: list[LatestRecord] = []
        size = at = 0
        reads = SegmentReads(log, Allowance())
        while (
            at < len(offsets)
            and len(found) < limit
            and size < RECORDS_BYTES_MAX
            and not reads.is_over
        ):
            batches, next_offset = await reads.batches(int(offsets[at]), int(offsets[-1]) + 1)
            behind = int(offsets.searchsorted(next_offset))
            wanted = offsets[at:behind].tolist()
            picked = await self._in_thread(partial(pick_records, batches, wanted))
            found += picked
            size += sum(len(each.key) + len(each.value or b"") for each in picked)
            at = behind
        is_whole = at == len(offsets) and len(found) <= limit
        bound = None if is_whole else f"there are more than {min(len(found), limit)} keys"
        return Latest(found[:limit], is_whole, 0, bound)

    async def _brought_up(
        self, log: PartitionLog, allowance: Allowance, *, counts: bool
    ) -> tuple[LogView, list[Span]]:
        """Read what is new. A view that failed on the way is made anew by the next question."""
        self._drop_closed()
        now_ms, rewrites = self._clock.now_ms(), log.log.rewrites
        held = self._views.pop(log.partition, None)
        if held is None or held.log is not log or not held.knows_deletes(now_ms):
            held = self._new_view(log, now_ms)
        view = held.view
        view.begin(log.log_start_offset)
        spans = [span async for span in spans_of(log)]
        view.keep({span.lssn for span in spans})
        reads = SegmentReads(log, allowance)
        for span in spans:
            if not await self._read(reads, view, span, counts=counts):
                break
        if not held.knows_deletes(self._clock.now_ms()):
            held = self._new_view(log, self._clock.now_ms())  # it took too long: all over again
            held.view.begin(log.log_start_offset)
        elif not spans or view.end >= spans[-1].end:
            held = held._replace(whole_ms=now_ms, rewrites=rewrites)
        self._views[log.partition] = held
        return held.view, spans

    async def _read(self, reads: SegmentReads, view: LogView, span: Span, *, counts: bool) -> bool:
        """Read what is new of a segment; return whether that is all of it."""
        counted = view.counts(span)
        while True:
            keys_from = view.keys_from(span)
            is_counted = counts or keys_from <= counted.end
            wanted = Wanted(counted.end if is_counted else span.end, keys_from, span.end)
            at = min(wanted.count_from, wanted.keys_from)
            if at >= span.end:
                break
            if reads.is_over:
                return False
            batches, next_offset = await reads.batches(at, span.end)
            aborted = await reads.aborted(at, next_offset)
            take = partial(view.take, span, batches, aborted, wanted, next_offset)
            await self._in_thread(partial(_checked, reads.name, take))
        if reads.ledger_of(span.lssn) != span.ledger_id:
            view.forget(span.lssn)  # it was swapped meanwhile: what was counted is of both
            return not counts
        return True

    def _drop_closed(self) -> None:
        """Let go of partitions that this broker does not have open any more."""
        for partition in [each for each, held in self._views.items() if held.log.failure]:
            del self._views[partition]

    def _new_view(self, log: PartitionLog, now_ms: int) -> _Held:
        self._room(SMALLEST_BYTES)
        return _Held(log, LogView(LatestOffsets(self._room)), now_ms, log.log.rewrites)

    def _room(self, wanted_bytes: int) -> bool:
        """Give the view that is asked so much, others' memory if need be."""
        while self._views and wanted_bytes + self._used > self._bytes_max:
            self._views.popitem(last=False)
        return wanted_bytes + self._used <= self._bytes_max

    @property
    def _used(self) -> int:
        return sum(held.view.latest.size_bytes for held in self._views.values())


def _nothing() -> None:
    """Do nothing, after all that was to be done before."""


def _counted(view: LogView, spans: Sequence[Span], live_keys: int | None) -> Counted:
    counts = [view.counts(span) for span in spans]
    unread = 0
    for span, counted in zip(spans, counts, strict=True):
        unread += span.end - min(counted.end, view.keys_from(span))
    bounds = [_unread(unread)] if unread else []
    if view.is_full:
        bounds.append(f"live keys: {_full(view)}")
    return Counted(
        end_offset=spans[-1].end if spans else view.end,
        records=sum(each.records for each in counts),
        tombstones=sum(each.tombstones for each in counts),
        keyless=sum(each.keyless for each in counts),
        live_keys=live_keys,
        unread_offsets=unread,
        bound="; ".join(bounds) or None,
    )


def _unread(offsets: int) -> str:
    return f"{offsets} offsets are not read yet, ask again"


def _full(view: LogView) -> str:
    return (
        f"there are more than the {view.latest.capacity} keys that admin.http.views.bytes holds, "
        f"from offset {view.end} on"
    )


def _checked(name: str, take: Callable[[], None]) -> None:
    """Say where a batch lies that cannot be read. Errors: CorruptData."""
    try:
        take()
    except CorruptBatch as error:
        raise CorruptData(f"{name}: {error}") from error
