"""What comes out of a replicated state machine, as plain values.

A request that may have to wait carries a `Ticket`. Sooner or later exactly one `Reply` names that
ticket; the state machine never sees who waits behind it. A `Write` holds records that must be
confirmed on the stream before its replies leave and before `then` is handed back.
"""

from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

Ticket: TypeAlias = int
"""Stands for one waiting request."""

NEVER = 1 << 62
"""A deadline that is not set. Unit: ms."""


class Now(NamedTuple):
    """One moment on both clocks: records carry the wall's, deadlines count the monotonic one."""

    wall_ms: int
    mono_ms: int


class StateRecord(NamedTuple):
    """Key and value of one record; the value of a tombstone is None."""

    key: bytes
    value: bytes | None


class Reply(NamedTuple):
    """The answer to one waiting request."""

    ticket: Ticket
    response: object


class InTransaction(NamedTuple):
    """Whose transaction the records of a write are part of."""

    producer_id: int
    producer_epoch: int


class EndOfTransaction(NamedTuple):
    """The marker that a write is, in place of records."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    committed: bool
    transaction_version: int


class Write(NamedTuple):
    """Records to append as a whole, and what follows once they are confirmed.

    The log may refuse a write that concerns a transaction (its producer is fenced): then it was
    not written, its replies are answered with the log's code, and `on_refused` is told.
    """

    records: tuple[StateRecord, ...]
    then: Any = None
    """What the write means: a value of the state machine that asked for it, given back to it."""
    replies: tuple[Reply, ...] = ()
    transaction: InTransaction | EndOfTransaction | None = None


@dataclass(slots=True)
class Effects:
    """Everything that one event brought about."""

    replies: list[Reply] = field(default_factory=list)
    writes: list[Write] = field(default_factory=list)
    commands: list[Any] = field(default_factory=list)
    """What the machine asks of its surroundings, in values of its own; see `Service.on_command`."""
    key: str = ""
    """Whose deadline `wake_at_ms` is: the name by which `expire` is told of it."""
    wake_at_ms: int = NEVER
    """No deadline of the key lies before this. Unit: monotonic ms."""

    def reply_last(self, reply: Reply) -> None:
        """Answer when everything that is written here is confirmed."""
        if self.writes:
            last = self.writes[-1]
            self.writes[-1] = last._replace(replies=(*last.replies, reply))
        else:
            self.replies.append(reply)
