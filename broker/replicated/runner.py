"""One replicated state machine at work on one partition: loads it, writes what it asks, answers.

An event's replies leave at once; its records are appended with those of all events of the same
loop iteration, as one batch; what waits for them happens when the log confirms the batch, in order.
A failed append drops the state: everybody who waits is told to find the coordinator again, and the
partition is replayed. Cancel: a request that goes away leaves its ticket, which nobody collects.
"""

import asyncio
import logging
from collections import deque
from itertools import count
from typing import Generic

from tailrace.broker.errors import KafkaError, error_code
from tailrace.broker.replicated.effects import (
    NEVER,
    Effects,
    EndOfTransaction,
    InTransaction,
    Now,
    Reply,
    StateRecord,
    Ticket,
    Write,
)
from tailrace.broker.replicated.machine import Answer, Event, M, Quiet, Service
from tailrace.broker.replicated.record_log import (
    Appended,
    RecordLog,
    read_updates,
    size_of,
    to_batch,
)
from tailrace.core.errors import CoreError
from tailrace.core.runtime.forever import Forever
from tailrace.core.runtime.tasks import Tasks
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.ids import TopicPartition

logger = logging.getLogger(__name__)

BATCH_BYTES_MAX = 1_000_000
"""Below both Kafka's default max.message.bytes and what one DistributedLog record holds."""

RELOAD_DELAYS_S = (0.1, 0.5, 1.0, 5.0)
"""How long to wait before a further load of a machine that wrote unasked what failed, as while no
bookie has room; the last one repeats, and is the longest pause after a load that failed."""

_APPEND_ERRORS = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
}
"""What clients are told when the log fails; NOT_COORDINATOR for all else.

Source: GroupMetadataManager.appendGroupMetadataErrorToResponseError, and
TransactionStateManager.appendTransactionToLog, which says the same.
"""


_REFUSALS = frozenset(
    {
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.TRANSACTION_COORDINATOR_FENCED,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.NOT_ENOUGH_REPLICAS,
    }
)
"""What the log says of a producer that it knows better, or has no room for: nothing was written."""


def _delay_s(attempt: int) -> float:
    return RELOAD_DELAYS_S[min(attempt, len(RELOAD_DELAYS_S) - 1)]


def _is_gone(error: Exception) -> bool:
    code = error_code(error) if isinstance(error, CoreError) else getattr(error, "code", None)
    return code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


class Runner(Generic[M]):
    """Owns one partition's machine, the requests that wait in it, and its writes in flight."""

    def __init__(self, tp: TopicPartition, service: Service[M], tasks: Tasks) -> None:
        self.tp = tp
        self.machine: M | None = None
        """None until it is loaded, and again after a failure."""
        self._service = service
        self._tasks = tasks
        self._log: RecordLog | None = None
        self._loading: asyncio.Task[None] | None = None
        self._is_closed = False
        self._failures = 0
        """In a row, since a write was confirmed or somebody had asked for it."""
        self._is_asked = False
        """Whether somebody has asked for something since it was loaded."""
        self._when_loaded: dict[str, Quiet[M]] = {}
        self._tickets = count()
        self._waiting: dict[Ticket, Answer] = {}
        self._queue: list[Write] = []
        self._in_flight: deque[list[Write]] = deque()

    @property
    def epoch(self) -> int:
        """At which this broker took the partition over: the coordinator's, in markers. -1: not."""
        return -1 if self._log is None else self._log.leader_epoch

    # Events

    def ask(self, event: Event[M]) -> Answer:
        """Give the machine an event; the answer may be there already."""
        answer: Answer = asyncio.get_running_loop().create_future()
        code = self.check()
        if self.machine is None:
            answer.set_result(code)
            return answer
        self._is_asked = True
        ticket = next(self._tickets)
        self._waiting[ticket] = answer
        self._service.metrics.requests_waiting += 1
        self._act(event(self.machine, ticket, self._service.now()))
        return answer

    def tell(self, event: Quiet[M]) -> None:
        """Give the machine an event that nobody waits for; nothing happens while it loads."""
        if self.machine is not None:
            for effects in event(self.machine, self._service.now()):
                self._act(effects)

    def tell_loaded(self, key: str, event: Quiet[M]) -> None:
        """Give the machine an event now, or once when it is loaded; `key` names it till then.

        Nothing happens where another broker serves the partition: it hears of the same.
        """
        if self.machine is None and self.is_mine:
            self._when_loaded[key] = event
        else:
            self.tell(event)

    def settle(self) -> Answer:
        """Return what is done when all that was asked until now is confirmed."""
        return self.ask(self._settle)

    def _settle(self, _machine: M, ticket: Ticket, _now: Now) -> Effects:
        reply = Reply(ticket, ErrorCode.NONE)
        if not self._queue and not self._in_flight:
            return Effects([reply])
        (self._queue or self._in_flight[-1]).append(Write((), replies=(reply,)))
        return Effects()

    def expire(self, key: str) -> None:
        """Tell the machine that a deadline of `key` has come."""
        self.tell(lambda machine, now: [machine.expire(key, now)])

    def _act(self, effects: Effects) -> None:
        for ticket, response in effects.replies:
            self._answer(ticket, response)
        if effects.writes:
            if not self._queue:
                asyncio.get_running_loop().call_soon(self._flush, self.machine)
            self._queue += effects.writes
        if effects.wake_at_ms < NEVER:
            self._service.on_wake(effects.key, effects.wake_at_ms)
        for command in effects.commands:
            self._service.on_command(self.tp.partition, command)

    def _answer(self, ticket: Ticket, response: object) -> None:
        answer = self._waiting.pop(ticket)
        self._service.metrics.requests_waiting -= 1
        if not answer.done():
            answer.set_result(response)

    # Writing

    def _flush(self, machine: M | None) -> None:
        if machine is None or machine is not self.machine:
            return
        queue, self._queue = self._queue, []
        batch: list[Write] = []
        size = 0
        for write in queue:
            need = size_of(write.records)
            if need > BATCH_BYTES_MAX:
                logger.error(
                    "%s_record_too_large partition=%s bytes=%d",
                    self._service.name,
                    self.tp,
                    need,
                )
                self._act(machine.on_refused(write, self._service.now()))
                continue
            if size + need > BATCH_BYTES_MAX or write.transaction is not None:
                self._append(machine, batch)
                batch, size = [], 0
            batch.append(write)
            size += need
            if write.transaction is not None:
                self._append(machine, batch)
                batch, size = [], 0
        self._append(machine, batch)

    def _append(self, machine: M, writes: list[Write]) -> None:
        if machine is not self.machine or self._log is None or not writes:
            return
        records = [record for write in writes for record in write.records]
        if not records and writes[0].transaction is None:
            self._follow(machine, len(self._in_flight), writes)
            return
        self._in_flight.append(writes)
        appended = self._hand_over(self._log, records, writes[0].transaction)
        soon = asyncio.get_running_loop().call_soon  # not now: it may have failed at once
        appended.add_done_callback(lambda each: soon(self._on_appended, machine, writes, each))

    def _hand_over(
        self,
        log: RecordLog,
        records: list[StateRecord],
        transaction: InTransaction | EndOfTransaction | None,
    ) -> Appended:
        if isinstance(transaction, EndOfTransaction):
            return log.append_marker(*transaction)
        return log.append(to_batch(records, self._service.clock.now_ms(), transaction))

    def _on_appended(self, machine: M, writes: list[Write], appended: Appended) -> None:
        if machine is not self.machine:
            return
        outcome = appended.result()
        if not isinstance(outcome, ErrorCode):
            self._failures = 0
            self._confirm(machine, self._in_flight.popleft())
        elif writes[0].transaction is not None and outcome in _REFUSALS:
            self._take_back(machine, writes, outcome)
        else:
            self._fail(outcome)

    def _take_back(self, machine: M, writes: list[Write], code: ErrorCode) -> None:
        """Answer a write that the log refused; what only waited behind it waits on."""
        at = next(at for at, each in enumerate(self._in_flight) if each is writes)
        del self._in_flight[at]
        refused, *behind = writes
        self._act(machine.on_refused(refused._replace(replies=()), self._service.now()))
        for ticket, _ in refused.replies:
            self._answer(ticket, _APPEND_ERRORS.get(code, code))
        self._follow(machine, at, behind)

    def _follow(self, machine: M, at: int, writes: list[Write]) -> None:
        """Let writes without records wait for what was appended before place `at`."""
        if at > 0:
            self._in_flight[at - 1] += writes
        else:
            self._confirm(machine, writes)

    def _confirm(self, machine: M, writes: list[Write]) -> None:
        for write in writes:
            self._service.metrics.records_written_total += len(write.records)
            self._act(machine.on_written(write, self._service.now()))

    def _fail(self, error: ErrorCode) -> None:
        """Give the state up: what is on the stream is the truth, and it will be read again."""
        self._service.metrics.shard_failures_total += 1
        logger.warning(
            "%s_shard_failed partition=%s error=%s", self._service.name, self.tp, error.name
        )
        self._failures = 1 if self._is_asked else self._failures + 1
        self.unload(_APPEND_ERRORS.get(error, ErrorCode.NOT_COORDINATOR))
        self.load_soon()

    def check(self) -> ErrorCode:
        """Say why the machine does not serve now; NONE if it does.

        If another broker serves the partition, it is given up. If its log died while nothing was
        written, others may own it by now: it is given up, and read again if it can be.
        """
        if not self.is_mine:
            self.yield_to_owner()
            return ErrorCode.NOT_COORDINATOR
        if self._log is not None and self._log.failure is not None:
            code = self._log.failure
            self._fail(code)
            return _APPEND_ERRORS.get(code, ErrorCode.NOT_COORDINATOR)
        if self.machine is None:
            self.load_soon()
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return ErrorCode.NONE

    @property
    def is_mine(self) -> bool:
        """Whether this broker serves the partition."""
        return self._service.is_mine(*self.tp)

    def yield_to_owner(self) -> None:
        """Give the partition up to another broker: whoever waits is told to look for it.

        What is on its way to the log may still land there; the new owner's load finds it. A load
        that is under way comes to nothing.
        """
        self._when_loaded.clear()  # the owner acts on what happens
        if self.machine is not None:
            logger.info("%s_shard_moved partition=%s", self._service.name, self.tp)
            self.unload(ErrorCode.NOT_COORDINATOR)

    def unload(self, code: ErrorCode) -> None:
        """Drop everything in memory and tell everybody who waits why."""
        if self.machine is not None:
            self._service.metrics.shards_loaded -= 1
        self.machine = None
        self._log = None
        self._queue = []
        self._in_flight.clear()
        waiting, self._waiting = self._waiting, {}
        self._service.metrics.requests_waiting -= len(waiting)
        for answer in waiting.values():
            if not answer.done():
                answer.set_result(code)

    def close(self, code: ErrorCode) -> None:
        """Unload for good: no load follows, and one that is under way comes to nothing."""
        self._is_closed = True
        self.unload(code)

    # Loading

    def load_soon(self) -> None:
        """Begin to load, unless it is loaded, on its way, or another broker's."""
        if self.machine is None and self._loading is None and not self._is_closed and self.is_mine:
            self._loading = self._tasks.spawn(self._load(), f"load {self.tp}")

    async def loaded(self) -> bool:
        """Wait until the machine serves, or cannot. Cancel: loading goes on."""
        loading = self.begin_load()
        if loading is not None:
            await asyncio.wait([loading])
        return self.machine is not None

    def begin_load(self) -> "asyncio.Task[None] | None":
        """Begin to load, as `load_soon`; return what is done when it serves, or cannot."""
        self.load_soon()
        return self._loading

    async def _load(self) -> None:
        try:
            if self._failures > 1:  # what it writes when it is loaded is what fails
                await asyncio.sleep(_delay_s(self._failures - 2))
                if self._is_closed or not self.is_mine:
                    return
            loads = Forever(
                f"{self._service.name}.load",
                about=str(self.tp),
                expected=(CoreError, KafkaError),
                pause_s_max=RELOAD_DELAYS_S[-1],
            )
            await loads.until_done(self._try_load)
        finally:
            self._loading = None

    async def _try_load(self) -> None:
        try:
            await self._load_once()
        except Exception as error:
            if self._is_closed or not self.is_mine or _is_gone(error):
                logger.info(
                    "%s_load_given_up partition=%s error=%r", self._service.name, self.tp, error
                )
                return
            raise

    async def _load_once(self) -> None:
        service = self._service
        log = service.logs.get(self.tp) or await service.logs.open(self.tp)
        await service.catch_up()  # after the log was claimed: now nobody else adds to it
        machine = service.make(self.tp.partition)
        records = 0
        async for update in read_updates(log, service.load_bytes, service.read_record):
            machine.replay(update)
            records += 1
        if self._is_closed or not self.is_mine:
            return
        service.metrics.records_loaded_total += records
        service.metrics.shards_loaded += 1
        self._log, self.machine = log, machine
        self._is_asked = False
        self.tell(lambda loaded, now: loaded.on_loaded(now))
        for event in self._when_loaded.values():
            self.tell(event)
        self._when_loaded.clear()
        if records:
            logger.info("%s_shard_loaded partition=%s records=%d", service.name, self.tp, records)
