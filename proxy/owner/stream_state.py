"""The states of one stream, as a table, and which of its operations runs or is answered when. Pure.

    UNINITIALIZED --operation--> INITIALIZING --acquired--> INITIALIZED --close--> CLOSING
                                      |                          |                    |
                                      +--given up, close         +--given up, failed  | ended
                                      v                          v                    v
                                    ERROR ---------------------ended--------------> CLOSED

Invariant: each operation is answered exactly once, and before the stream is CLOSED. Those that wait
for the claim run in the order in which they came, before any that comes later. A stream never
leaves CLOSED: a later request makes another one. What comes while it is let go waits for the end of
that: answered at once, it would be asked of proxies that the lock still refuses.
Source: reference DistributedLog 9.2; StreamImpl.StreamStatus.
"""

from collections.abc import Mapping
from enum import Enum, IntEnum, auto
from typing import Final, NamedTuple


class StreamStatus(IntEnum):
    """Where a stream is, by DistributedLog's numbers."""

    UNINITIALIZED = -1
    """Nothing was asked of it."""
    INITIALIZING = 0
    """It is claimed; operations wait."""
    INITIALIZED = 1
    """It is owned."""
    CLOSING = -4
    """It is completed and let go; operations that run are finished first."""
    CLOSED = -5
    ERROR = -6
    """It is let go as it is; recovery completes it."""


class StreamEvent(Enum):
    """What happens to a stream."""

    OPERATION = auto()
    ACQUIRED = auto()
    GIVEN_UP = auto()
    """Its claim was refused, an operation took too long, or our own code failed."""
    FAILED = auto()
    """Its writer is dead, and answers each operation that it has."""
    CLOSE = auto()
    """It is released, or the proxy stops."""
    ENDED = auto()
    """It is let go, and nothing of it runs any more."""


class StreamAction(Enum):
    """What the stream is to do. Those with operations: in their order."""

    CLAIM = auto()
    QUEUE = auto()
    """Only in the table: keep the operation; answer it as OVERFLOW if the queue is full, with
    REFUSE if the stream is let go."""
    RUN = auto()
    OVERFLOW = auto()
    """Answer an operation that found the queue full."""
    ANSWER = auto()
    """Answer operations with the reason that the stream has; what they did is not waited for."""
    REFUSE = auto()
    """Answer operations that never ran: they did nothing."""
    COMPLETE = auto()
    """Finish what runs, complete the log, let it go; then ENDED."""
    ABORT = auto()
    """Let the log go as it is; then ENDED."""
    FORGET = auto()
    """Nothing is left of the stream."""


class Command(NamedTuple):
    """One action, for these operations."""

    action: StreamAction
    operations: tuple[int, ...] = ()


class Transition(NamedTuple):
    """Where an event leads, and what it has done."""

    status: StreamStatus
    actions: tuple[StreamAction, ...] = ()


_UNINITIALIZED, _INITIALIZING = StreamStatus.UNINITIALIZED, StreamStatus.INITIALIZING
_INITIALIZED, _CLOSING = StreamStatus.INITIALIZED, StreamStatus.CLOSING
_CLOSED, _ERROR = StreamStatus.CLOSED, StreamStatus.ERROR
_Event, _Action = StreamEvent, StreamAction

TABLE: Final[Mapping[tuple[StreamStatus, StreamEvent], Transition]] = {
    (_UNINITIALIZED, _Event.OPERATION): Transition(_INITIALIZING, (_Action.QUEUE, _Action.CLAIM)),
    (_UNINITIALIZED, _Event.CLOSE): Transition(_CLOSED, (_Action.FORGET,)),
    (_INITIALIZING, _Event.OPERATION): Transition(_INITIALIZING, (_Action.QUEUE,)),
    (_INITIALIZING, _Event.ACQUIRED): Transition(_INITIALIZED, (_Action.RUN,)),
    (_INITIALIZING, _Event.GIVEN_UP): Transition(_ERROR, (_Action.ANSWER, _Action.ABORT)),
    (_INITIALIZING, _Event.CLOSE): Transition(_CLOSING, (_Action.ANSWER, _Action.COMPLETE)),
    (_INITIALIZED, _Event.OPERATION): Transition(_INITIALIZED, (_Action.RUN,)),
    (_INITIALIZED, _Event.GIVEN_UP): Transition(_ERROR, (_Action.ANSWER, _Action.ABORT)),
    (_INITIALIZED, _Event.FAILED): Transition(_ERROR, (_Action.ABORT,)),
    (_INITIALIZED, _Event.CLOSE): Transition(_CLOSING, (_Action.COMPLETE,)),
    (_CLOSING, _Event.OPERATION): Transition(_CLOSING, (_Action.QUEUE,)),
    (_CLOSING, _Event.ENDED): Transition(_CLOSED, (_Action.ANSWER, _Action.FORGET)),
    (_ERROR, _Event.OPERATION): Transition(_ERROR, (_Action.QUEUE,)),
    (_ERROR, _Event.ENDED): Transition(_CLOSED, (_Action.ANSWER, _Action.FORGET)),
    (_CLOSED, _Event.OPERATION): Transition(_CLOSED, (_Action.REFUSE,)),
}
"""What is not here changes nothing: a writer that fails while it is aborted, a second close."""


class StreamMachine:
    """One stream's state and its unanswered operations, by number. No clock, no task.

    Shape: numbers are unique and rise. An operation waits, or runs, or was answered.
    """

    __slots__ = ("_bytes_max", "_operations_max", "_running", "_waiting", "status", "waiting_bytes")

    def __init__(self, operations_max: int, bytes_max: int) -> None:
        """Bound what waits; one operation always has room."""
        self.status = StreamStatus.UNINITIALIZED
        self.waiting_bytes = 0
        """Bytes of the operations that wait."""
        self._operations_max = operations_max
        self._bytes_max = bytes_max
        self._waiting: dict[int, int] = {}
        self._running: dict[int, None] = {}

    @property
    def waiting(self) -> int:
        """How many operations wait."""
        return len(self._waiting)

    @property
    def running(self) -> int:
        """How many operations run."""
        return len(self._running)

    def submit(self, number: int, size_bytes: int) -> list[Command]:
        """Take an operation; return what is to be done, in this order."""
        transition = TABLE[self.status, StreamEvent.OPERATION]
        self.status = transition.status
        commands: list[Command] = []
        for action in transition.actions:
            if action is StreamAction.QUEUE:
                commands += self._queue(number, size_bytes)
            elif action is StreamAction.CLAIM:
                commands.append(Command(action))
            else:
                if action is StreamAction.RUN:
                    self._running[number] = None
                commands.append(Command(action, (number,)))
        return commands

    def on(self, event: StreamEvent) -> list[Command]:
        """Take any other event; return what is to be done, in this order."""
        transition = TABLE.get((self.status, event))
        if transition is None:
            return []
        self.status = transition.status
        commands: list[Command] = []
        for action in transition.actions:
            if action is StreamAction.RUN:
                commands.append(Command(action, self._begin_all()))
            elif action is StreamAction.ANSWER:
                commands += self._end_all()
            else:
                commands.append(Command(action))
        return commands

    def answered(self, number: int) -> bool:
        """Take note that an operation that ran is done; False: it was answered before."""
        if number not in self._running:
            return False
        del self._running[number]
        return True

    def _queue(self, number: int, size_bytes: int) -> list[Command]:
        is_full = len(self._waiting) >= self._operations_max
        if self._waiting and (is_full or self.waiting_bytes + size_bytes > self._bytes_max):
            is_let_go = self.status in (StreamStatus.CLOSING, StreamStatus.ERROR)
            full = StreamAction.REFUSE if is_let_go else StreamAction.OVERFLOW
            return [Command(full, (number,))]
        self._waiting[number] = size_bytes
        self.waiting_bytes += size_bytes
        return []

    def _begin_all(self) -> tuple[int, ...]:
        numbers = tuple(self._waiting)
        self._running.update(dict.fromkeys(numbers))
        self._clear_queue()
        return numbers

    def _end_all(self) -> list[Command]:
        running, waiting = tuple(self._running), tuple(self._waiting)
        self._running.clear()
        self._clear_queue()
        return [Command(StreamAction.ANSWER, running), Command(StreamAction.REFUSE, waiting)]

    def _clear_queue(self) -> None:
        self._waiting.clear()
        self.waiting_bytes = 0
