"""Faults to script: what a `Broker` does wrong when a test asks for it, and how it is undone."""

import math
from abc import ABC, abstractmethod
from types import TracebackType
from typing import Any, Literal, Self

from tailrace.testing.control import FaultPort


class Fault:
    """A fault that is set, until `undo`, the end of its `with` block, or the end of the broker.

    >>> with broker.delay("Fetch", ms=500):
    ...     consumer.poll(1.0)
    """

    def __init__(self, port: FaultPort, fault_id: int) -> None:
        self._port = port
        self._id = fault_id
        self._last_hits = 0

    @property
    def hits(self) -> int:
        """How many requests it was for so far; after its end, what was last heard."""
        if self._port.is_up:
            self._hear(self._port.ask("GET"))
        return self._last_hits

    def undo(self) -> None:
        """End it. Idempotent; nothing to do when the process that had it is gone."""
        if self._port.is_up:
            self._hear(self._port.ask("DELETE", f"/{self._id}"))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.undo()

    def _hear(self, listed: list[dict[str, Any]]) -> None:
        for each in listed:
            if each["id"] == self._id:
                self._last_hits = each["hits"]


class Faults(ABC):
    """The faults of a broker; each method is one. All calls block.

    `api` is Kafka's name of a request (Produce, Fetch, EndTxn, ...), `error` Kafka's name of an
    error (NOT_LEADER_OR_FOLLOWER, ...). Of several faults for one request, `drop_next` goes first,
    delays add up. Counts are of the whole broker, whichever client it is that asks.

    Errors, of all: BrokerError for unknown names (with the nearest known one), and if the broker
    does not run, is paused or does not answer.
    """

    @abstractmethod
    def _fault_port(self) -> FaultPort:
        """Return the port of the process that runs. Errors: BrokerError if it cannot be asked."""

    @abstractmethod
    def _see_end(self) -> None:
        """Wait until the process has ended. Errors: BrokerError if it does not."""

    def drop_next(
        self, api: str, count: int = 1, *, when: Literal["before", "after"] = "after"
    ) -> Fault:
        """Cut the connection instead of answering the next `count` requests.

        `when`: before or after the request took effect. After it, a client cannot know whether it
        did, which is what idempotence is for.
        """
        return self._set("drop_next", api=api, count=count, when=when)

    def delay(self, api: str, ms: float) -> Fault:
        """Answer every request of an API late; it takes effect at once. Unit: ms, to 600,000.

        What the client sent behind it on the same connection waits as well.
        """
        return self._set("delay", api=api, ms=math.ceil(ms))

    def fail_next(
        self,
        api: str,
        error: str,
        *,
        topic: str | None = None,
        partition: int | None = None,
        count: int = 1,
    ) -> Fault:
        """Answer the next `count` requests with an error, and do not carry them out.

        With a topic, a partition, or both: requests that name it, and only that part of them.
        """
        return self._set(
            "fail_next", api=api, error=error, topic=topic, partition=partition, count=count
        )

    def cut_connections(self) -> int:
        """Cut every connection, and return how many there were. Clients may connect again."""
        return self._do("cut_connections")

    def skew_clock(self, seconds: float) -> Fault:
        """Let its wall clock be ahead by so much, behind if negative; several skews add up.

        What it times (sessions, delays) goes on as before; what it dates (records, retention,
        transactions, lapsed offsets) is different.
        """
        return self._set("skew_clock", seconds=seconds)

    def fill_disk(self) -> Fault:
        """Leave no room for records: produces get retriable errors until `free_disk` or undo."""
        return self._set("fill_disk")

    def free_disk(self) -> None:
        """Undo every `fill_disk`; the broker takes records again."""
        self._do("free_disk")

    def lose_unsynced(self) -> None:
        """Cut the power: every write that was not synced is undone, and the broker is killed.

        What was acknowledged is there after `start`. Of the store of topics and other metadata
        only the kill is played: SQLite syncs each of its changes itself.
        """
        self._fault_port().ask("POST", order=_order("lose_unsynced", {}), is_last=True)
        self._see_end()

    def abort_transaction(self, transactional_id: str) -> None:
        """Abort an open transaction and shut its producer out, as its timeout would."""
        self._do("abort_transaction", transactional_id=transactional_id)

    def rebalance(self, group: str) -> None:
        """Have all members of a consumer group join again.

        Those of the classic protocol are told to; those of KIP-848's are put out, as if they had
        not been heard of for a session's time, and lose their partitions.
        """
        self._do("rebalance", group=group)

    def _set(self, fault: str, **arguments: object) -> Fault:
        port = self._fault_port()
        return Fault(port, port.ask("POST", order=_order(fault, arguments))["id"])

    def _do(self, fault: str, **arguments: object) -> int:
        answer = self._fault_port().ask("POST", order=_order(fault, arguments))
        return int(answer["hits"])


def _order(fault: str, arguments: dict[str, object]) -> dict[str, object]:
    given = {name: value for name, value in arguments.items() if value is not None}
    return {"fault": fault, **given}
