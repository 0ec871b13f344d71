"""Pending transactional offsets against a plain reading of the rule: record offsets decide."""

from hypothesis import given
from hypothesis import strategies as st

from tailrace.broker.coordinator.offsets import OffsetStore
from tailrace.broker.coordinator.pending import PendingOffsets
from tailrace.broker.coordinator.records import CommittedOffset, OffsetUpdate

GROUPS = st.sampled_from(["g", "h"])
PARTITIONS = st.integers(0, 1)
PRODUCERS = st.integers(1, 3)
EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("plain"), st.none(), GROUPS, PARTITIONS),
        st.tuples(st.just("delete"), st.none(), GROUPS, PARTITIONS),
        st.tuples(st.just("pending"), PRODUCERS, GROUPS, PARTITIONS),
        st.tuples(st.sampled_from(["commit", "abort"]), PRODUCERS, st.none(), st.none()),
    ),
    max_size=40,
)


class Naive:
    """OffsetMetadataManager's rule, word by word: whoever has the higher record offset wins."""

    def __init__(self) -> None:
        self.visible: dict[tuple[str, int], int] = {}
        self.pending: dict[int, dict[tuple[str, int], int]] = {}

    def play(self, at: int, kind: str, producer: int, name: tuple[str, int]) -> None:
        if kind == "plain":
            self.visible[name] = at
        elif kind == "delete":
            self.visible.pop(name, None)
            for entries in self.pending.values():
                entries.pop(name, None)
        elif kind == "pending":
            self.pending.setdefault(producer, {})[name] = at
        else:
            ended = self.pending.pop(producer, {})
            for each, offset in ended.items() if kind == "commit" else ():
                self.visible[each] = max(self.visible.get(each, -1), offset)

    def open(self) -> set[tuple[str, int]]:
        return {name for entries in self.pending.values() for name in entries}


def play(
    store: OffsetStore,
    pending: PendingOffsets,
    at: int,
    kind: str,
    producer: int,
    name: tuple[str, int],
) -> None:
    committed = None if kind == "delete" else CommittedOffset(at, -1, "", 0)
    update = OffsetUpdate(name[0], "t", name[1], committed)
    if kind in ("plain", "delete"):
        pending.overtake(update)
        store.apply(update)
    elif kind == "pending":
        pending.add(producer, update)
    else:
        for each in pending.end(producer, is_commit=kind == "commit"):
            store.apply(each)


@given(EVENTS)
def test_what_is_visible_and_what_is_open_is_what_record_offsets_say(events: list[tuple]) -> None:  # type: ignore[type-arg]
    naive, store, pending = Naive(), OffsetStore(), PendingOffsets()
    for at, (kind, producer, group, partition) in enumerate(events):
        naive.play(at, kind, producer, (group, partition))
        play(store, pending, at, kind, producer, (group, partition))
        visible = {
            (group_id, index): committed.offset
            for group_id in store
            for index, committed in store.of_group(group_id)["t"].items()
        }
        assert visible == naive.visible
        open_ = {
            (name.group_id, name.partition)
            for group_id in pending
            for name in pending.of_group(group_id)
        }
        assert open_ == naive.open()
        assert {name for name in naive.open() if pending.has(name[0], "t", name[1])} == open_


def test_nothing_is_kept_of_transactions_that_have_ended() -> None:
    pending = PendingOffsets()
    update = OffsetUpdate("g", "t", 0, CommittedOffset(1, -1, "", 0))
    pending.add(1, update)
    assert "g" in pending
    assert pending.end(1, is_commit=True) == [update]
    assert "g" not in pending
    assert pending.end(1, is_commit=True) == []
