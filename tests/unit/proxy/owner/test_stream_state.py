"""The stream machine beside an oracle that keeps lists."""

from hypothesis import given
from hypothesis import strategies as st

from tailrace.proxy.owner.stream_state import (
    TABLE,
    Command,
    StreamAction,
    StreamEvent,
    StreamMachine,
    StreamStatus,
)

OPERATIONS_MAX, BYTES_MAX = 4, 100
ANSWERS = (StreamAction.ANSWER, StreamAction.REFUSE, StreamAction.OVERFLOW)
WAITING = (StreamStatus.INITIALIZING, StreamStatus.CLOSING, StreamStatus.ERROR)

EVENTS = [event for event in StreamEvent if event is not StreamEvent.OPERATION]
STEPS = st.one_of(
    st.tuples(st.just("submit"), st.integers(0, 70)),
    st.tuples(st.just("event"), st.sampled_from(EVENTS)),
    st.tuples(st.just("answer"), st.integers(0, 9)),
)


class Oracle:
    """What a client and a writer see: which operation waits, runs, or was answered."""

    def __init__(self) -> None:
        self.machine = StreamMachine(OPERATIONS_MAX, BYTES_MAX)
        self.sizes: dict[int, int] = {}
        self.waiting: list[int] = []
        self.running: list[int] = []
        self.ran: list[int] = []
        self.answered: list[int] = []
        self.overflowed: list[int] = []
        self.others: list[StreamAction] = []

    def submit(self, size: int) -> None:
        number = len(self.sizes) + 1
        self.sizes[number] = size
        before = self.machine.status
        self.waiting.append(number)
        self.do(self.machine.submit(number, size))
        if before is StreamStatus.CLOSED:
            assert self.answered[-1] == number

    def do(self, commands: list[Command]) -> None:
        for action, numbers in commands:
            assert action is not StreamAction.QUEUE
            if action is StreamAction.RUN:
                for number in numbers:
                    assert number == self.waiting.pop(0), "out of order"
                    self.running.append(number)
                    self.ran.append(number)
            elif action in ANSWERS:
                for number in numbers:
                    never_ran = number not in self.ran
                    assert never_ran or action is StreamAction.ANSWER
                    (self.waiting if number in self.waiting else self.running).remove(number)
                    self.answered.append(number)
                    if action is StreamAction.OVERFLOW:
                        self.overflowed.append(number)
            else:
                assert not numbers
                self.others.append(action)

    def answer(self, which: int) -> None:
        """The writer answers an operation: one that runs, or one that was given up long ago."""
        known = sorted(self.sizes)
        if known:
            number = known[which % len(known)]
            assert self.machine.answered(number) == (number in self.running)
            if number in self.running:
                self.running.remove(number)
                self.answered.append(number)

    def check(self) -> None:
        machine = self.machine
        assert sorted(self.answered + self.waiting + self.running) == sorted(self.sizes)
        assert len(set(self.answered)) == len(self.answered), "answered twice"
        assert self.ran == sorted(self.ran)
        assert (machine.waiting, machine.running) == (len(self.waiting), len(self.running))
        assert machine.waiting_bytes == sum(self.sizes[number] for number in self.waiting)
        assert len(self.waiting) <= OPERATIONS_MAX
        assert len(self.waiting) <= 1 or machine.waiting_bytes <= BYTES_MAX
        if self.waiting:
            assert machine.status in WAITING
        if machine.status is StreamStatus.CLOSED:
            assert not self.waiting
            assert not self.running
        for action in (StreamAction.CLAIM, StreamAction.FORGET):
            assert self.others.count(action) <= 1
        ends = [self.others.count(each) for each in (StreamAction.COMPLETE, StreamAction.ABORT)]
        assert sum(ends) <= 1
        is_over = machine.status is StreamStatus.CLOSED
        assert self.others.count(StreamAction.FORGET) == is_over


@given(st.lists(STEPS, max_size=60))
def test_each_operation_is_answered_once_in_order_and_none_after_the_end(
    steps: list[tuple[str, int | StreamEvent]],
) -> None:
    oracle = Oracle()
    for kind, value in steps:
        if isinstance(value, StreamEvent):
            oracle.do(oracle.machine.on(value))
        elif kind == "submit":
            oracle.submit(value)
        else:
            oracle.answer(value)
        oracle.check()
    for event in (StreamEvent.CLOSE, StreamEvent.ENDED):
        oracle.do(oracle.machine.on(event))
    oracle.check()
    assert sorted(oracle.answered) == sorted(oracle.sizes)


def test_states_have_distributedlogs_numbers() -> None:
    assert [status.value for status in StreamStatus] == [-1, 0, 1, -4, -5, -6]


def test_every_state_takes_an_operation() -> None:
    assert {status for status, event in TABLE if event is StreamEvent.OPERATION} == set(
        StreamStatus
    )


def test_nothing_leaves_the_end_and_an_error_is_not_mended() -> None:
    ends = {StreamStatus.CLOSED, StreamStatus.ERROR, StreamStatus.CLOSING}
    for (status, _), transition in TABLE.items():
        if status in ends:
            assert transition.status in {status, StreamStatus.CLOSED}


def test_the_queue_is_bounded_by_number_and_by_bytes() -> None:
    machine = StreamMachine(2, 100)
    assert machine.submit(1, 1000) == [Command(StreamAction.CLAIM)]  # one always has room
    assert machine.submit(2, 1) == [Command(StreamAction.OVERFLOW, (2,))]
    assert machine.on(StreamEvent.ACQUIRED) == [Command(StreamAction.RUN, (1,))]
    machine = StreamMachine(2, 100)
    machine.submit(1, 50)
    assert machine.submit(2, 50) == []
    assert machine.submit(3, 0) == [Command(StreamAction.OVERFLOW, (3,))]
