"""The queue of unanswered records, against a log that does what an owner does."""

from random import Random
from typing import NamedTuple

import pytest

from tailrace.protocol.distributedlog.dlsn import DLSN, INVALID
from tailrace.proxy.client.pending import Pending, RecordQueue, positions


def queue_of(count: int, writer_id: bytes = b"w") -> tuple[RecordQueue, list[Pending]]:
    queue = RecordQueue(writer_id)
    records = [Pending(b"%d" % n, float(n)) for n in range(count)]
    for one in records:
        queue.add(one)
    return queue, records


def test_messages_have_what_fits_and_at_least_one_record() -> None:
    queue = RecordQueue(b"")
    for size in (10, 20, 5, 100, 1):
        queue.add(Pending(bytes(size), 0))
    sizes = []
    while (batch := queue.next_batch(2, 30)) is not None:
        sizes.append([len(one.payload) for one in batch.records])
    assert sizes == [[10, 20], [5], [100], [1]]
    assert [batch.id for batch in queue.sent] == [1, 2, 3, 4]


def test_a_broken_call_puts_all_back_in_order_and_leaves_them_open() -> None:
    queue, records = queue_of(5)
    queue.next_batch(2, 100), queue.next_batch(2, 100)
    queue.broke()
    assert list(queue.waiting) == records
    assert [one.is_unknown for one in records] == [True, True, True, True, False]


@pytest.mark.parametrize("is_unknown", [True, False])
def test_what_may_be_written_of_a_message_may_be_of_those_behind(*, is_unknown: bool) -> None:
    """They were on their way together, in one entry perhaps, whose fate is not known."""
    queue, records = queue_of(7)
    for _ in range(3):
        queue.next_batch(2, 100)
    done, left = queue.stopped(1, is_unknown=is_unknown)
    assert (done, left, queue.number) == (records[:1], 1, 1)
    assert list(queue.waiting) == records[1:]
    assert [one.is_unknown for one in records] == [False, *[is_unknown] * 5, False]


def test_giving_up_what_may_be_written_takes_all_such_along() -> None:
    queue, records = queue_of(5)
    queue.next_batch(3, 100)
    queue.broke()
    assert queue.give_up(1, b"x") == records[:3]
    assert (queue.writer_id, queue.number, list(queue.waiting)) == (b"x", 0, records[3:])


def test_giving_up_what_is_not_written_leaves_its_number_to_the_next() -> None:
    queue, records = queue_of(3)
    assert queue.give_up(1, b"x") == records[:1]
    assert (queue.writer_id, queue.number, list(queue.waiting)) == (b"w", 0, records[1:])


def test_without_numbers_only_what_is_asked_for_is_given_up() -> None:
    queue, records = queue_of(3, b"")
    queue.next_batch(3, 100)
    queue.broke()
    assert queue.give_up(1, b"x") == records[:1]
    assert queue.writer_id == b""


def test_records_expire_oldest_first() -> None:
    queue, records = queue_of(4)
    assert queue.expired(1.5) == 2
    records[0].is_unknown = True
    assert queue.expire_unsent(1.5) == []
    records[0].is_unknown = False
    assert queue.expire_unsent(1.5) == records[:2]


def test_an_answer_without_all_positions_has_none() -> None:
    both = [DLSN(1, 0, 0), DLSN(1, 0, 1)]
    assert positions(2, both) == both
    assert positions(2, both[:1]) == [INVALID, INVALID]
    assert positions(2, [both[0], DLSN(0, 0, 0)]) == [both[0], INVALID]


class Numbered(NamedTuple):
    writer_id: bytes
    number: int
    payload: bytes


class Owner:
    """A log that keeps the numbers of writers: each number once, no gap."""

    def __init__(self) -> None:
        self.log: list[bytes] = []
        self._next: dict[bytes, int] = {}

    def write(self, writer_id: bytes, number: int, payload: bytes) -> bool:
        """Return whether it is in the log now; False: it leaves a gap."""
        known = self._next.get(writer_id, 0)
        if number < known:
            return True
        if number > known:
            return False
        self._next[writer_id] = number + 1
        self.log.append(payload)
        return True


class Story:
    """A queue whose calls end in every way, before an owner."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.owner, self.queue = Owner(), RecordQueue(b"0")
        self.acknowledged: list[bytes] = []
        self.failed: list[Pending] = []
        self.added = self.writers = 0
        self.on_way: list[list[Numbered]] = []
        """The messages of the call that is open, with the numbers that their owner gives them."""

    def add(self) -> None:
        self.queue.add(Pending(b"%d" % self.added, 0))
        self.added += 1

    def send(self) -> None:
        before = sum(map(len, self.on_way))
        batch = self.queue.next_batch(self.rng.randrange(1, 4), 1000)
        if batch is not None:
            first = self.queue.number + before
            self.on_way.append(
                [
                    Numbered(self.queue.writer_id, first + n, one.payload)
                    for n, one in enumerate(batch.records)
                ]
            )

    def succeed(self) -> None:
        if self.on_way:
            self.write(self.on_way.pop(0))
            self.acknowledged += [one.payload for one in self.queue.succeeded()]

    def stop(self) -> None:
        if self.on_way:
            records = self.on_way[0]
            written = self.rng.randrange(len(records))
            self.write(records[:written])
            is_unknown = self.rng.random() < 0.5
            if is_unknown and self.rng.random() < 0.5:
                self.write(records[written:])
                for behind in self.on_way[1 : self.rng.randint(1, len(self.on_way))]:
                    self.write(behind)
            self.on_way.clear()
            done, _ = self.queue.stopped(written, is_unknown=is_unknown)
            self.acknowledged += [one.payload for one in done]

    def break_call(self) -> None:
        for records in self.on_way[: self.rng.randrange(len(self.on_way) + 1)]:
            self.write(records)  # what was sent may arrive all the same, in its order
        self.on_way.clear()
        self.queue.broke()

    def give_up(self) -> None:
        if not self.on_way:
            self.writers += 1
            self.failed += self.queue.give_up(self.rng.randrange(3), b"%d" % self.writers)

    def write(self, records: list[Numbered]) -> None:
        for one in records:
            assert self.owner.write(*one), "a gap"

    def check(self) -> None:
        self.break_call()
        while self.queue:
            self.send()
            self.succeed()
        log = self.owner.log
        assert len(set(log)) == len(log), "written twice"
        assert set(self.acknowledged) <= set(log), "acknowledged, and lost"
        for one in self.failed:
            assert one.is_unknown or one.payload not in log, "failed for certain, and there"
        assert sorted(log, key=int) == log, "out of order"
        assert len(self.acknowledged) + len(self.failed) == self.added


@pytest.mark.parametrize("seed", range(60))
def test_each_answer_is_true_whatever_calls_do(seed: int) -> None:
    """Acknowledged: there, once. Failed for certain: not there. In order, but what was given up."""
    rng = Random(seed)
    story = Story(rng)
    steps = [story.add, story.send, story.succeed, story.stop, story.break_call, story.give_up]
    for _ in range(120):
        rng.choices(steps, [35, 25, 20, 7, 8, 5])[0]()
    story.check()
