"""What a replicated state machine is, and what all partitions of one kind of it share."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from tailrace.broker.replicated.effects import Effects, Now, Ticket, Write
from tailrace.broker.replicated.record_log import ReadRecord, RecordLogs
from tailrace.core.runtime.clock import Clock

Answer: TypeAlias = asyncio.Future[Any]
"""The response of an event, or the ErrorCode for a response that says only that."""


class StateMachine(Protocol):
    """The state of one partition: no clock, no socket, no task. What is asked of it is its own."""

    def replay(self, update: Any, /) -> None:
        """Take over what one record of the stream says: the newest of each key, in their order.

        `Pending` if it waits for the end of a transaction.
        """

    def on_loaded(self, now: Now, /) -> Iterable[Effects]:
        """Begin to act: everything is replayed."""

    def on_written(self, write: Write, now: Now, /) -> Effects:
        """Act on a confirmed write. The effects carry the write's replies, or others."""

    def on_refused(self, write: Write, now: Now, /) -> Effects:
        """Act on a write that is not stored: too large, or refused by the log (see `Write`)."""

    def expire(self, key: str, now: Now, /) -> Effects:
        """Act on a deadline of `key` that has come."""


class RunnerMetrics(Protocol):
    """What runners count, in numbers that their owner declares."""

    records_written_total: int
    records_loaded_total: int
    shard_failures_total: int
    shards_loaded: int
    requests_waiting: int


M = TypeVar("M", bound=StateMachine)

Event: TypeAlias = Callable[[M, Ticket, Now], Effects]
"""What is asked of the machine by somebody who waits."""

Quiet: TypeAlias = Callable[[M, Now], Iterable[Effects]]
"""What the machine is told, and nobody waits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Service(Generic[M]):
    """What all partitions of one kind of state machine share."""

    name: str
    """For the log: group, transaction."""
    logs: RecordLogs
    clock: Clock
    make: Callable[[int], M]
    """Makes the empty machine of a partition."""
    read_record: ReadRecord[Any]
    load_bytes: int
    """Bytes read at once while a partition is replayed."""
    on_wake: Callable[[str, int], None]
    """Hears of every deadline: key, monotonic ms."""
    on_command: Callable[[int, Any], None]
    """Is given what a machine asks of its surroundings: partition, command."""
    metrics: RunnerMetrics
    is_mine: Callable[[str, int], bool]
    """Whether this broker serves a partition of the topic; others are neither loaded nor asked."""
    catch_up: Callable[[], Awaitable[None]]
    """Has this broker know all topics that there are: what is loaded may speak of any.

    Errors: CoreError.
    """

    def now(self) -> Now:
        """Return the time on both clocks."""
        return Now(self.clock.now_ms(), int(self.clock.monotonic_s() * 1000))
