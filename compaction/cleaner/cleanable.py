"""What the cleaner needs of a log: `CleanableLog`, made of a partition by whoever owns it.

Shapes: offsets are Kafka's and never change; a segment is named by its sequence number (LSSN) and
covers offsets `base_offset` to `next_offset` without holes between segments, whatever batches are
left in it; a batch is one stored record batch, as bytes. What the cleaner decides, it decides over
these values (`compaction/cleaner`, pure); what it changes goes through `SegmentRewrite`.
Source: reference Kafka 9.3 - 9.6.
"""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

from tailrace.protocol.ids import Buffer, LedgerId, Offset


class CleanSettings(NamedTuple):
    """What the topic's configs say of cleaning, with Kafka's names and defaults."""

    compacts: bool = True
    """Whether cleanup.policy has 'compact'."""
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = 2**63 - 1
    delete_retention_ms: int = 86_400_000
    min_cleanable_dirty_ratio: float = 0.5
    batch_bytes_max: int = 2**31 - 1
    """Largest batch that a segment takes: a rebuilt one may be larger than what was produced."""
    segment_bytes: int = 0
    """Segments are merged up to this size; 0: not at all."""


class CleanableSegment(NamedTuple):
    """One segment of a log, in progress or completed."""

    lssn: int
    base_offset: Offset
    """First offset that it covers."""
    next_offset: Offset
    """One after the last offset that it covers."""
    size_bytes: int
    """Of its batches."""
    first_timestamp: int
    """Max timestamp of its first batch; -1 if not known: it then counts as `max_timestamp`."""
    max_timestamp: int
    """-1 if no record has a time."""
    in_progress: bool
    """Whether it is still written: the active segment, which is never cleaned."""


class AbortedRange(NamedTuple):
    """One aborted transaction; `broker.partition.aborted.AbortedTransaction` begins with these."""

    producer_id: int
    first_offset: Offset
    last_offset: Offset
    """Of its marker."""


class LastSequence(NamedTuple):
    """Where a producer's last sequence stands in the log."""

    last_offset: Offset
    """Of its last data batch; -1 if it has none in its epoch."""
    producer_epoch: int


class StoredBatches(NamedTuple):
    """Some of a segment's batches, in offset order."""

    lssn: int
    ledger_id: LedgerId
    batches: Sequence[Buffer]
    """Each one whole record batch. They never change, however long somebody holds them."""
    entries: Sequence[int]
    """The ledger entry that each batch lies in, for messages about bad ones."""


class CleanCheckpoint(NamedTuple):
    """What was cleaned so far. Lost or old: work is done again, nothing else."""

    first_dirty_offset: Offset = 0
    cleaned_ms: int = 0
    """When the last pass ended; 0: never."""
    bytes_before: int = 0
    """Of the segments that all passes rewrote, before, and after."""
    bytes_after: int = 0


class SegmentCounts(NamedTuple):
    """What only the cleaner knows of a segment that it wrote; -1: not counted."""

    tombstones: int = -1
    keys: int = -1
    """Distinct ones."""


class SegmentRewrite(Protocol):
    """New ledgers for a run of completed segments, swapped in all at once."""

    async def append(self, lssn: int, batches: Sequence[Buffer]) -> None:
        """Write batches of one segment; segments one after the other, offsets rise.

        Waits for room. The buffers may go once it returns. Errors: CoreError.
        """

    async def finish(self, lssn: int, counts: SegmentCounts) -> None:
        """Complete one segment. Errors: CoreError."""

    async def commit(self) -> None:
        """Swap all of them in. Errors: BadVersion (owner, truncation or retention came first)."""

    async def abort(self) -> None:
        """Delete what was written; nothing after `commit`. Idempotent. Errors: none."""


class SegmentMerge(Protocol):
    """The new ledger of the last of the oldest segments, with what all of them hold."""

    async def append(self, lssn: int, batches: Sequence[Buffer]) -> None:
        """Write batches of one of them, as they are; offsets rise. Errors: CoreError."""

    async def finish_all(self) -> None:
        """Complete it. Errors: CoreError."""

    async def commit(self) -> None:
        """Swap it in; the other segments end. Errors: BadVersion, as of a rewrite."""

    async def abort(self) -> None:
        """Delete what was written; nothing after `commit`. Idempotent. Errors: none."""


class CleanableLog(Protocol):
    """A log as the cleaner sees it, for one pass."""

    @property
    def name(self) -> str:
        """Topic and partition, as in log lines."""

    @property
    def settings(self) -> CleanSettings:
        """What the topic allows now: asked again between groups."""

    @property
    def log_start_offset(self) -> Offset:
        """First offset that is kept."""

    @property
    def last_stable_offset(self) -> Offset:
        """First offset of the oldest open transaction, or the high watermark."""

    async def checkpoint(self) -> CleanCheckpoint:
        """Return what was noted last. Errors: CoreError."""

    async def save_checkpoint(self, checkpoint: CleanCheckpoint) -> None:
        """Note what was cleaned, on disk. Errors: CoreError."""

    async def segments(self) -> Sequence[CleanableSegment]:
        """Return all segments, oldest first, the active one last. Errors: CoreError."""

    async def aborted_between(self, first: Offset, last: Offset) -> Sequence[AbortedRange]:
        """Return the aborted transactions with records among `first` to `last`, inclusive.

        Nothing in the range is undecided. Errors: CoreError.
        """

    def last_sequences(self) -> Mapping[int, LastSequence]:
        """Return where each known producer's last sequence stands, by producer id."""

    def read(
        self, lssn: int, block_bytes: Callable[[], int]
    ) -> AsyncGenerator[StoredBatches, None]:
        """Yield what a completed segment holds, in blocks: of about `block_bytes()`, or one batch.

        It is asked before each block. Errors: CoreError. Memory: a block.
        """

    async def rewrite(self, lssns: Sequence[int]) -> SegmentRewrite:
        """Begin new ledgers for a run of completed segments. Errors: CoreError."""

    async def merge(self, lssns: Sequence[int]) -> SegmentMerge:
        """Begin to put the oldest segments together. Errors: CannotRewrite; CoreError."""

    @property
    def may_clean(self) -> bool:
        """False once ownership, the topic or its policy went: the pass then gives up."""
