"""One stream of a write proxy: it is claimed by its first request, and written in their order.

Invariant: core decides which process may write: its lock keeps healthy ones apart, the fence of
recovery stops any other owner. This claims, orders and answers. A writer that has failed is never
written to again: the stream is let go, and a later request makes and claims another.

    submit -> StreamMachine -> (claim) -> core's LogWriter -> Answer

Source: reference DistributedLog 9.2; StreamImpl.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from tailrace.core.errors import CoreError, OwnershipAcquireFailed
from tailrace.core.log.writer import LogWriter
from tailrace.core.runtime.tasks import Tasks
from tailrace.protocol.distributedlog.record import record_parts
from tailrace.protocol.ids import TxId
from tailrace.proxy.owner.codes import StatusCode
from tailrace.proxy.owner.context import OwnerContext, StreamHome
from tailrace.proxy.owner.numbered_writes import NumberedWrites
from tailrace.proxy.owner.operations import (
    CHAIN_BROKEN,
    SUCCESS,
    Answer,
    Heartbeat,
    Operation,
    Truncate,
    Write,
    WriteBulk,
    answer_of,
    break_chain,
)
from tailrace.proxy.owner.outcomes import Outcome, Part, answer_to, has_failed, when_done
from tailrace.proxy.owner.stream_state import (
    Command,
    StreamAction,
    StreamEvent,
    StreamMachine,
    StreamStatus,
)
from tailrace.proxy.owner.stream_times import StreamTimer, StreamTimes

if TYPE_CHECKING:
    from tailrace.core.log.log import Log

logger = logging.getLogger(__name__)

_CLOSED = Answer(StatusCode.STREAM_UNAVAILABLE, "the stream is released")


class _Unanswered(NamedTuple):
    operation: Operation
    future: "asyncio.Future[Answer]"
    began_s: float


class Stream:
    """One stream, from its first request to its end. All calls come from the loop."""

    def __init__(self, name: str, home: StreamHome, context: OwnerContext) -> None:
        self.name = name
        config = context.config
        self._home = home
        self._context = context
        self._loop = asyncio.get_running_loop()
        self._machine = StreamMachine(config.queued_operations_max, config.queued_bytes_max)
        self._unanswered: dict[int, _Unanswered] = {}
        self._number = 0
        self._times = StreamTimes(config)
        self._timer = StreamTimer(self._due_s, self._on_late)
        self._tasks = Tasks("proxy.stream", self._on_bug)
        self._claiming: asyncio.Task[None] | None = None
        self._steps: set[asyncio.Task[None]] = set()
        """Operations that are tasks."""
        self._numbered = NumberedWrites(config, context.metrics)
        self._log: Log | None = None
        self._writer: LogWriter | None = None
        self._is_unwritten = True
        """Whether this owner has written nothing yet."""
        self._reason = _CLOSED
        """What operations get that the stream cannot run."""
        self.goes_to: Answer | None = None
        """What those get that never ran, if it is let go for another proxy."""
        self._ended = asyncio.Event()

    @property
    def status(self) -> StreamStatus:
        """Its state."""
        return self._machine.status

    @property
    def is_idle(self) -> bool:
        """Whether it is owned, and nothing of it runs."""
        return self.status is StreamStatus.INITIALIZED and not self._unanswered

    def submit(self, operation: Operation) -> "asyncio.Future[Answer]":
        """Take an operation; return a future of its answer. The first one claims the stream.

        Writes reach the log in the order of the calls, also those that wait for the claim. Each
        future gets one answer, in the end, and no exception.
        Shape: OVER_CAPACITY while too much waits for the claim, or for the bookies;
        STREAM_UNAVAILABLE once the stream ends. `Streams.write` lists the codes that mean that
        nothing was written.
        Cancel: of the future ends the waiting, not the operation.
        Cost: a write takes one round trip to the bookies, those that overlap share it; the first
        one the claim, ten round trips. Source: StreamImpl.submit.
        """
        self._number += 1
        number, future = self._number, self._loop.create_future()
        self._unanswered[number] = _Unanswered(operation, future, self._loop.time())
        self._do(self._machine.submit(number, operation.size_bytes))
        self._timer.set()
        return future

    async def close(self) -> None:
        """Finish what runs, complete the log, let it go. Idempotent.

        What waits for the claim gets STREAM_UNAVAILABLE, or `goes_to`. So does what comes later,
        once another proxy can claim the log. After `server_writer_close_timeout_ms` it is let go
        as it is.
        Errors: none: recovery does what this cannot. Cancel: the stream closes anyway.
        Cost: two commits of the metadata. Source: StreamImpl.requestClose.
        """
        self._do(self._machine.on(StreamEvent.CLOSE))
        await self._ended.wait()

    # ------------------------------------------------------------------ core's writer (LogListener)

    def on_confirmed(self, txid: TxId) -> None:
        """Do nothing: each record has a future."""

    def on_failed(self, error: CoreError) -> None:
        """Give up the stream, whose writer is dead."""
        self._context.metrics.failed_streams_total += 1
        answer = self._answer_of(error)
        self._reason = Answer(StatusCode.STREAM_UNAVAILABLE, f"its writer failed: {answer.error}")
        self._note_refusal(error)
        self._do(self._machine.on(StreamEvent.FAILED))

    # ------------------------------------------------------------------ what the machine says

    def _do(self, commands: list[Command]) -> None:
        for action, operations in commands:
            if action is StreamAction.RUN:
                for number in operations:
                    self._run(number)
            elif action in (StreamAction.ANSWER, StreamAction.REFUSE):
                goes_to = self.goes_to if action is StreamAction.REFUSE else None
                for number in operations:
                    self._answer(number, goes_to or self._reason)
            else:
                self._do_other(action, operations)

    def _do_other(self, action: StreamAction, operations: tuple[int, ...]) -> None:
        if action is StreamAction.CLAIM:
            self._times.claims(self._loop.time())
            self._claiming = self._tasks.spawn(self._claim(), "claim")
        elif action is StreamAction.OVERFLOW:
            self._context.metrics.queue_full_total += 1
            full = Answer(StatusCode.OVER_CAPACITY, "too much waits for the stream to be claimed")
            for number in operations:
                self._answer(number, full)
        elif action is StreamAction.COMPLETE:
            self._tasks.start(self._finish(self._complete), "complete")
        elif action is StreamAction.ABORT:
            self._tasks.start(self._finish(self._abort), "abort")
        else:
            self._timer.stop()
            self._home.on_closed(self.name)
            self._ended.set()

    def _answer(self, number: int, answer: Answer) -> None:
        """Answer an operation, unless it was answered before."""
        self._machine.answered(number)
        unanswered = self._unanswered.pop(number, None)
        if unanswered is None:
            return
        break_chain(unanswered.operation, answer)
        metrics = self._context.metrics
        metrics.operation_seconds.observe(self._loop.time() - unanswered.began_s)
        if not unanswered.future.done():
            unanswered.future.set_result(answer)

    def _answer_of(self, error: CoreError) -> Answer:
        return answer_of(error, self._context.location)

    def _on_bug(self, error: Exception) -> None:
        """Let the stream go: what it had begun has no other end."""
        self._reason = Answer(StatusCode.UNEXPECTED, repr(error))
        self._do(self._machine.on(StreamEvent.GIVEN_UP))

    # ------------------------------------------------------------------ claiming

    async def _claim(self) -> None:
        context = self._context
        try:
            await asyncio.sleep(self._home.claim_wait_s(self.name))
            context.metrics.claims_total += 1
            began_s = self._loop.time()
            self._log = await context.namespace.open_log(self.name)
            self._numbered.check_lock = self._log.check_lock
            self._writer = writer = await self._log.open_writer(self, self._numbered.state)
            await context.check_may(self.name)
        except CoreError as error:
            logger.info("stream_not_acquired stream=%s error=%r", self.name, error)
            self._give_up_claim(error)
            return
        if writer.error is not None:
            self._give_up_claim(writer.error)
        elif self.status is StreamStatus.INITIALIZING:
            context.metrics.claim_seconds.observe(self._loop.time() - began_s)
            logger.info("stream_acquired stream=%s", self.name)
            self._home.on_acquired(self.name)
            self._timer.stop()
            self._times.owns(self._loop.time())
            self._do(self._machine.on(StreamEvent.ACQUIRED))
            self._timer.set()

    def _give_up_claim(self, error: CoreError) -> None:
        self._reason = self._answer_of(error)
        self._note_refusal(error)
        self._do(self._machine.on(StreamEvent.GIVEN_UP))

    def _note_refusal(self, error: CoreError) -> None:
        if isinstance(error, OwnershipAcquireFailed) and error.current_owner:
            self._home.on_refused(self.name, error, self._answer_of(error))

    # ------------------------------------------------------------------ operations

    def _run(self, number: int) -> None:
        """Begin an operation; writes are taken before this returns."""
        writer, log = self._writer, self._log
        assert writer is not None, "an operation ran before the claim"
        assert log is not None, "a writer without its log"
        operation = self._unanswered[number].operation
        if isinstance(operation, Write):
            self._write(number, operation, writer)
        elif isinstance(operation, WriteBulk):
            self._write_bulk(number, operation, writer)
        elif isinstance(operation, Truncate):
            self._step(number, partial(log.truncate, operation.before))
        else:
            self._heartbeat(number, operation, writer)

    def _next_txid(self, writer: LogWriter) -> TxId:
        """Return max(last, now): several records may share it. Unit: ms. Source: TimeSequencer."""
        return max(writer.last_txid, self._context.clock.now_ms())

    def _write(self, number: int, operation: Write, writer: LogWriter) -> None:
        self._is_unwritten = False
        txid, payload = self._next_txid(writer), operation.payload
        if operation.writer is not None:
            record = record_parts(txid, (payload,), len(payload), operation.values)
            outcomes = self._numbered.write(writer, operation.writer, [record])
            self._end_if_dead(writer)
            self._answer_when_done(number, outcomes)
            return
        try:
            written = writer.write(txid, payload, operation.values)
        except CoreError as error:
            self._answer(number, self._answer_of(error))
            self._end_if_dead(writer)
        else:
            written.add_done_callback(lambda _: self._answer_write(number, [written]))

    def _write_bulk(self, number: int, operation: WriteBulk, writer: LogWriter) -> None:
        chain = operation.chain
        if chain is not None and not chain.may_write(operation.number):
            self._answer(number, CHAIN_BROKEN)
            return
        if not operation.payloads:
            self._answer(number, SUCCESS)
            return
        self._is_unwritten = False
        self._answer_when_done(number, self._append(operation, self._next_txid(writer), writer))
        self._end_if_dead(writer)

    def _append(
        self, operation: WriteBulk, txid: TxId, writer: LogWriter
    ) -> Answer | Sequence[Outcome]:
        """Append a bulk's records; of a chain together, else with a future for each."""
        payloads, numbers = operation.payloads, operation.writer
        if operation.chain is not None:
            if numbers is not None:
                return self._numbered.write_bulk(writer, numbers, txid, payloads)
            return [Part(writer.append_bulk(txid, payloads), 0, len(payloads))]
        records = [record_parts(txid, (each,), len(each)) for each in payloads]
        if numbers is not None:
            return self._numbered.write(writer, numbers, records)
        return writer.append_many(records)

    def _answer_when_done(self, number: int, outcomes: Answer | Sequence[Outcome]) -> None:
        """Answer a write now, or when its records are done."""
        if isinstance(outcomes, Answer):
            self._answer(number, outcomes)
            return
        unanswered = self._unanswered.get(number)
        if unanswered is not None and has_failed(outcomes[-1]):  # at once: it was refused
            break_chain(unanswered.operation, CHAIN_BROKEN)
        when_done(outcomes, partial(self._answer_write, number, outcomes))

    def _answer_write(self, number: int, outcomes: Sequence[Outcome]) -> None:
        unanswered = self._unanswered.get(number)
        if unanswered is None:
            return
        operation = unanswered.operation
        assert isinstance(operation, Write | WriteBulk), "only writes have outcomes"
        if operation.writer is not None:
            self._numbered.settle(operation.writer.writer_id)
        self._answer(number, answer_to(operation, outcomes, self._context.location))

    def _end_if_dead(self, writer: LogWriter) -> None:
        """Let the stream go if its writer was stopped without a word, as by its namespace."""
        if writer.error is not None:
            self._do(self._machine.on(StreamEvent.FAILED))

    def _heartbeat(self, number: int, operation: Heartbeat, writer: LogWriter) -> None:
        if not (operation.to_readers or self._is_unwritten):
            self._answer(number, SUCCESS)
            return
        self._is_unwritten = False
        self._step(number, partial(writer.keep_alive, self._next_txid(writer)))

    def _step(self, number: int, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        task = self._tasks.spawn(self._run_step(number, work), "operation")
        self._steps.add(task)
        task.add_done_callback(self._steps.discard)

    async def _run_step(self, number: int, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        try:
            await work()
        except CoreError as error:
            self._answer(number, self._answer_of(error))
        else:
            self._answer(number, SUCCESS)

    # ------------------------------------------------------------------ operations that take long

    def _due_s(self) -> float | None:
        oldest = next(iter(self._unanswered.values()), None)
        return self._times.due_s(self.status, None if oldest is None else oldest.began_s)

    def _on_late(self) -> None:
        logger.warning("stream_timed_out stream=%s status=%s", self.name, self.status.name)
        config, metrics = self._context.config, self._context.metrics
        is_claim = self.status is StreamStatus.INITIALIZING
        if is_claim:
            metrics.claim_timeouts_total += 1
            text = f"its claim took more than {config.claim_timeout_ms} ms"
        else:
            metrics.service_timeouts_total += 1
            text = f"an operation took more than {config.service_timeout_ms} ms"
        self._reason = Answer(StatusCode.STREAM_UNAVAILABLE, text)
        if not is_claim:
            self._home.on_timed_out(self.name, self._reason)
        self._do(self._machine.on(StreamEvent.GIVEN_UP))

    # ------------------------------------------------------------------ the end

    async def _finish(self, let_go: Callable[[LogWriter], Coroutine[Any, Any, None]]) -> None:
        """Let the log go, once; whatever happens, the stream ends."""
        try:
            if self._claiming is not None:
                self._claiming.cancel()
                await asyncio.wait([self._claiming])
            if self._writer is not None:
                await let_go(self._writer)
            await self._context.namespace.close_log(self.name)
        except CoreError as error:
            logger.info("stream_end_failed stream=%s error=%r", self.name, error)
        finally:
            self._do(self._machine.on(StreamEvent.ENDED))

    async def _complete(self, writer: LogWriter) -> None:
        try:
            async with asyncio.timeout(self._context.config.close_timeout_ms / 1000):
                if self._steps:
                    await asyncio.wait(self._steps)
                await writer.close()
        except TimeoutError:
            self._context.metrics.close_timeouts_total += 1
            logger.warning("stream_close_timed_out stream=%s", self.name)
            await self._abort(writer)

    async def _abort(self, writer: LogWriter) -> None:
        steps = list(self._steps)
        for step in steps:
            step.cancel()
        await writer.abort()
        if steps:
            await asyncio.wait(steps)
