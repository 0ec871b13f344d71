"""The loop of a restore: fetch, fold, save; leaders that move, logs that lose their beginning."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from tailrace.compaction.restoring.checkpoint import Checkpoint, summary
from tailrace.compaction.restoring.cluster import Address, Topic, bounds, by_leader, find_topic
from tailrace.compaction.restoring.errors import (
    CorruptBatch,
    LogTruncated,
    RestoreError,
    TopicGone,
    Transient,
)
from tailrace.compaction.restoring.fetcher import Event, Fetched, Fetchers, OutOfRange, Sizes, Span
from tailrace.compaction.restoring.fold import fold
from tailrace.compaction.restoring.patience import Patience
from tailrace.compaction.restoring.sinks.sink import Sink

if TYPE_CHECKING:
    from tailrace.compaction.restoring.records import Changes

RECORD_OVERHEAD_BYTES = 200
"""What Python keeps for a key and a value in a dict, beside their bytes."""
_LOOK_S = 1.0
"""How often the loop looks at the time when nothing comes."""


class Step(NamedTuple):
    """How far a restore is, for whoever watches."""

    offsets: int
    """Offsets passed, of `offsets_total`, gaps among them."""
    offsets_total: int
    records: int
    bytes: int


class Limits(NamedTuple):
    """What a restore may hold in memory."""

    sizes: Sizes
    save_bytes: int
    """Of records that are not saved yet."""


class Folding:
    """Folds a topic into a sink until every partition of the checkpoint is done."""

    def __init__(
        self,
        bootstrap: Sequence[Address],
        topic: Topic,
        checkpoint: Checkpoint,
        sink: Sink,
        patience: Patience,
    ) -> None:
        self._bootstrap = bootstrap
        self._topic = topic
        self._checkpoint = checkpoint
        self._sink = sink
        self._patience = patience
        self._changes: dict[int, Changes] = {}
        self._unsaved_bytes = 0

    def run(self, limits: Limits, watch: Callable[[Step], None]) -> None:
        """Read everything that is left.

        Errors: RestoreError; what was folded before it is saved, unless a batch is corrupt: then
        the last save stays. So it does after all other errors (KeyboardInterrupt, the sink's).
        """
        try:
            while not self._checkpoint.is_read:
                self._try(limits, watch)
        except RestoreError as error:
            if not isinstance(error, CorruptBatch):
                self.save()
            raise
        self.save()

    def save(self) -> None:
        """Save what is folded, if there is anything."""
        if not self._unsaved_bytes:
            return
        self._checkpoint.saves += 1
        self._sink.save(self._changes, self._checkpoint)
        self._changes = {}
        self._unsaved_bytes = 0

    def _try(self, limits: Limits, watch: Callable[[Step], None]) -> None:
        """Fetch for as long as leaders stay where they are."""
        try:
            self._fetch(limits, watch)
        except Transient as error:
            self._patience.wait(error)
            self._patience.retry(self._look_again)

    def _fetch(self, limits: Limits, watch: Callable[[Step], None]) -> None:
        spans = {
            partition: Span(each.position, each.end)
            for partition, each in self._checkpoint.partitions.items()
            if not each.is_done
        }
        led = by_leader(self._topic, spans)
        fetchers = Fetchers(self._topic, led, spans, limits.sizes, self._patience.timeout_s)
        try:
            while not self._checkpoint.is_read:
                self._take(fetchers.next(_LOOK_S))
                if self._unsaved_bytes >= limits.save_bytes:
                    self.save()
                watch(self._step())
        except OutOfRange as error:
            self._explain(error)
        finally:
            fetchers.close()

    def _take(self, event: Event | None) -> None:
        if isinstance(event, Exception):
            raise event
        moved = [self._fold(fetched) for fetched in event or ()]
        if any(moved):
            self._patience.progressed()
        elif self._patience.is_over:
            self._explain_silence()

    def _fold(self, fetched: Fetched) -> bool:
        """Fold what was fetched; say whether it was anything new."""
        progress = self._checkpoint.partitions[fetched.partition]
        position = progress.position
        before = progress.bytes + RECORD_OVERHEAD_BYTES * progress.records
        changes = self._changes.setdefault(fetched.partition, {})
        place = self._place(fetched.partition)
        fold(progress, fetched.records, fetched.aborted, changes, place)
        after = progress.bytes + RECORD_OVERHEAD_BYTES * progress.records
        self._unsaved_bytes += after - before + 1  # passing markers is progress too
        return progress.position > position

    def _explain_silence(self) -> None:
        """Say why brokers bring nothing for so long. Errors: those of `_explain`."""
        partitions = self._checkpoint.partitions
        waiting = next(each for each in partitions if not partitions[each].is_done)
        self._explain(OutOfRange(waiting, self._place(waiting)))

    def _look_again(self) -> None:
        """Ask who leads now. Errors: TopicGone, Transient."""
        topic = find_topic(self._bootstrap, self._topic.name, self._patience.timeout_s)
        if topic.id != self._topic.id:
            raise TopicGone(
                f"the topic was deleted and created again: its id is {topic.id.hex()} now",
                place=topic.name,
                remedy="start over (`--fresh`); what was saved stays as it is until then",
            )
        missing = sorted(set(self._checkpoint.partitions) - set(topic.leaders))
        if missing:
            raise TopicGone(f"partitions {missing} are gone", place=topic.name)
        self._topic = topic

    def _explain(self, error: OutOfRange) -> None:
        """Say what became of the range. Errors: LogTruncated; Transient while nobody can say."""
        partition, place = error.partition, error.place
        progress = self._checkpoint.partitions[partition]
        now = self._patience.retry(
            lambda: bounds(self._topic, [partition], self._patience.timeout_s)
        )[partition]
        if now.start > progress.position:
            cause = f"the log begins at {now.start} now, after the next offset {progress.position}"
        elif now.end < progress.end:
            cause = f"the log ends at {now.end} now, before the end {progress.end} it had"
        else:
            raise Transient(f"offset {progress.position} is not served", place) from error
        raise LogTruncated(
            cause,
            place=place,
            remedy="start over (`--fresh`); what was saved stays as it is until then",
        ) from error

    def _place(self, partition: int) -> str:
        return f"{self._topic.name}-{partition}"

    def _step(self) -> Step:
        partitions = self._checkpoint.partitions
        passed, total = summary(partitions)
        records = sum(each.records for each in partitions.values())
        return Step(passed, total, records, sum(each.bytes for each in partitions.values()))
