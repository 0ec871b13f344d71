"""OffsetFetch: what a group has committed, and what is not certain yet.

Source: OffsetMetadataManager.fetchOffsets, fetchAllOffsets.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeAlias

from tailrace.broker.coordinator.offsets import OffsetStore
from tailrace.broker.coordinator.pending import PendingOffsets
from tailrace.broker.coordinator.records import CommittedOffset
from tailrace.protocol.errors import ErrorCode

NOT_COMMITTED = CommittedOffset(-1, -1, "", -1)

Topics: TypeAlias = Sequence[tuple[str, Sequence[int]]]


class WantedOffsets(NamedTuple):
    """What is asked of one group."""

    group_id: str
    topics: Topics | None
    """None: everything that it has committed."""
    is_stable: bool = False
    """What a transaction may still change is not to be told."""
    member_id: str | None = None
    member_epoch: int = -1


class FoundOffset(NamedTuple):
    """One partition; UNSTABLE_OFFSET_COMMIT without an offset while a transaction is open."""

    partition: int
    committed: CommittedOffset
    code: ErrorCode


Found: TypeAlias = list[tuple[str, list[FoundOffset]]]


class FoundOffsets(NamedTuple):
    """What there is for one group, or why nothing is said."""

    code: ErrorCode
    topics: Found


def find_offsets(wanted: WantedOffsets, offsets: OffsetStore, pending: PendingOffsets) -> Found:
    """Return each wanted partition in the order of the request, or all in that of their names."""
    committed = offsets.of_group(wanted.group_id)
    asked: Iterable[tuple[str, Sequence[int]]] = wanted.topics or ()
    if wanted.topics is None:
        asked = ((topic, sorted(committed[topic])) for topic in sorted(committed))

    def find(topic: str, partition: int) -> FoundOffset:
        if wanted.is_stable and pending.has(wanted.group_id, topic, partition):
            return FoundOffset(partition, NOT_COMMITTED, ErrorCode.UNSTABLE_OFFSET_COMMIT)
        stored = committed.get(topic, {}).get(partition, NOT_COMMITTED)
        return FoundOffset(partition, stored, ErrorCode.NONE)

    return [(topic, [find(topic, index) for index in indexes]) for topic, indexes in asked]
