"""What a session remembers of its partitions, and which of them a poll looks at."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.broker.fetching.sessions import CachedPartition, FetchSession, SessionKind, Updates
from tailrace.broker.partition.waiters import Waiters
from tailrace.protocol.kafka.messages.fetch import (
    EpochEndOffset,
    FetchPartition,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)

KIND = SessionKind(privileged=False, uses_topic_ids=False, reads_committed=False)


class Poll:
    """A poll that waits."""

    def __init__(self) -> None:
        self.bytes = 0
        self.woken = 0

    def on_bytes(self, count: int) -> None:
        self.bytes += count

    def wake(self) -> None:
        self.woken += 1


def session_of(partitions: int, kind: SessionKind = KIND) -> FetchSession:
    session = FetchSession(1, 0, kind)
    for index in range(partitions):
        session.add(("t", index), FetchPartition(partition=index))
    return session


def taken(session: FetchSession) -> list[CachedPartition]:
    """Take all that is active."""
    found = []
    while (cached := session.take()) is not None:
        found.append(cached)
    return found


def numbers(partitions: list[CachedPartition]) -> list[int]:
    return [int(cached.key[1]) for cached in partitions]


def idle_session(partitions: int, kind: SessionKind = KIND) -> tuple[FetchSession, list[Waiters]]:
    """Return a session all of whose partitions stand at their logs."""
    session, logs = session_of(partitions, kind), [Waiters() for _ in range(partitions)]
    session.settle({cached: logs[int(cached.key[1])] for cached in taken(session)})
    return session, logs


def test_a_poll_looks_only_at_what_may_have_changed() -> None:
    session, logs = idle_session(4)
    assert taken(session) == []
    logs[2].on_bytes(10, 10)
    logs[0].wake_all()
    assert numbers(taken(session)) == [2, 0], "as it became known"
    asked = [FetchTopic(topic="t", partitions=[FetchPartition(partition=3)])]
    session.update(Updates(asked, ()))
    assert numbers(taken(session)) == [3]


def test_what_a_poll_does_not_find_idle_is_looked_at_again() -> None:
    session = session_of(3)
    first, second, third = taken(session)
    log = Waiters()
    session.settle({second: log})
    assert taken(session) == [first, third]
    log.on_bytes(1, 1)
    assert taken(session) == [second]


def test_what_a_poll_that_never_ended_looked_at_is_taken_by_the_next() -> None:
    session = session_of(3)
    assert numbers(taken(session)) == [0, 1, 2]
    session.begin(reads_committed=False)
    assert numbers(taken(session)) == [0, 1, 2]


def test_another_isolation_level_looks_at_everything() -> None:
    session, _ = idle_session(3)
    session.begin(reads_committed=False)
    assert taken(session) == []
    session.begin(reads_committed=True)
    assert numbers(taken(session)) == [0, 1, 2]


@pytest.mark.parametrize(("committed", "heard"), [(False, 14), (True, 6)])
def test_a_poll_that_waits_hears_every_byte_that_counts(committed: bool, heard: int) -> None:
    session, logs = idle_session(2, KIND._replace(reads_committed=committed))
    session.parked = poll = Poll()
    logs[0].on_bytes(5, 2)
    logs[0].on_bytes(5, 0)
    logs[1].on_bytes(4, 4)
    assert (poll.bytes, poll.woken) == (heard, 0)
    logs[1].wake_all()
    assert poll.woken == 1


def test_a_session_that_nobody_polls_is_told_once() -> None:
    _session, logs = idle_session(1)
    assert len(logs[0]) == 1
    logs[0].on_bytes(1, 1)
    assert len(logs[0]) == 0


def test_who_goes_on_ends_the_poll_before() -> None:
    session, _ = idle_session(1)
    session.parked = poll = Poll()
    assert session.begin(reads_committed=False) == 2
    assert (poll.woken, session.parked) == (1, None)


def test_what_was_forgotten_is_gone_even_in_mid_poll() -> None:
    session, logs = idle_session(3)
    logs[1].on_bytes(1, 1)
    (examined,) = taken(session)
    gone = [ForgottenTopic(topic="t", partitions=[0, 1, 9])]
    session.update(Updates((), gone))
    session.settle({examined: logs[1]})
    assert [len(log) for log in logs] == [0, 0, 1]
    assert list(session.partitions) == [("t", 2)]


def test_a_closed_session_stands_nowhere_and_knows_no_epoch() -> None:
    session, logs = idle_session(2)
    session.parked = poll = Poll()
    session.close()
    assert [len(log) for log in logs] == [0, 0]
    assert (poll.woken, session.epoch) == (1, -2)


def test_only_what_is_new_is_told() -> None:
    """testUpdateAndGenerateResponseData, testDivergingEpoch."""
    (cached,) = taken(session_of(1))
    assert cached.tell(PartitionData(high_watermark=5, log_start_offset=0), 0)
    assert not cached.tell(PartitionData(high_watermark=5, log_start_offset=0), 0)
    assert cached.tell(PartitionData(high_watermark=6, log_start_offset=0), 0)
    assert cached.tell(PartitionData(high_watermark=6, log_start_offset=1), 0)
    assert cached.tell(PartitionData(high_watermark=6, log_start_offset=1), 100)
    diverging = EpochEndOffset(epoch=0, end_offset=3)
    data = PartitionData(high_watermark=6, log_start_offset=1, diverging_epoch=diverging)
    assert cached.tell(data, 0)
    failed = PartitionData(error_code=6, high_watermark=-1, log_start_offset=-1)
    assert cached.tell(failed, 0)
    assert cached.tell(failed, 0)
    assert cached.tell(PartitionData(high_watermark=6, log_start_offset=1), 0)


def test_an_error_at_the_very_first_is_told_and_so_is_its_end() -> None:
    (cached,) = taken(session_of(1))
    assert cached.tell(PartitionData(error_code=3, high_watermark=0), 0)
    assert cached.tell(PartitionData(high_watermark=0), 0)


def test_only_partitions_that_gave_records_go_last() -> None:
    """testDeprioritizesPartitionsWithRecordsOnly."""
    session = session_of(3)
    first, second, third = taken(session)
    first.tell(PartitionData(high_watermark=10), 50)
    second.tell(PartitionData(high_watermark=20), 0)
    third.tell(PartitionData(error_code=1), 0)
    session.settle({})
    assert taken(session) == [second, third, first]


@given(st.lists(st.tuples(st.sampled_from("adusnb"), st.integers(0, 3)), max_size=40))
def test_a_partition_is_looked_at_or_stands_at_its_log(steps: list[tuple[str, int]]) -> None:
    """Whatever happens in whatever order, no news can be missed."""
    session, logs = idle_session(4)
    looked_at: list[CachedPartition] = []
    for step, index in steps:
        if step == "a":
            session.add(("t", index), FetchPartition(partition=index))
        elif step == "d":
            session.update(Updates((), [ForgottenTopic(topic="t", partitions=[index])]))
        elif step == "u":
            logs[index].on_bytes(1, 0)
        elif step == "s":
            idle = {each: logs[int(each.key[1])] for each in looked_at if each.key[1] != index}
            session.settle(idle)
            looked_at = []
        elif step == "n":
            looked_at = taken(session)
        else:
            session.begin(reads_committed=False)
            looked_at = []
        session.begin(reads_committed=False)
        active = set(taken(session))
        everything = set(session.partitions.values())
        standing = {cached for cached in everything if cached.place is not None}
        assert standing == everything - active
        assert set(looked_at) & everything <= active
        assert sum(map(len, logs)) == len(standing)
        session.settle({})
        looked_at = []
