"""Produce within transactions: the first batch in a partition waits for the coordinator's yes.

One request at a time for each transactional id, in order of arrival, from the first that has to
wait until none does; whatever comes meanwhile waits behind it, so the order of a producer's batches
is that of its requests. One question per request, for all partitions that need it: up to v11
whether they are in the transaction, from v12 on to add them (KIP-890). When all partitions of a
request have the producer's transaction open, nothing of this is used.
Source: reference Kafka 4.6; ReplicaManager.handleProduceAppend, AddPartitionsToTxnManager.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from tailrace.broker.context import RequestContext
from tailrace.broker.partition.admission import LateOutcome, follow, settle
from tailrace.broker.partition.in_steps import AT_ONCE
from tailrace.broker.partition.partition_log import PartitionLog
from tailrace.broker.transactions.peer_requests import Question
from tailrace.protocol.errors import BufferUnderflow, ErrorCode
from tailrace.protocol.ids import Buffer, TopicPartition
from tailrace.protocol.kafka.messages.produce import ProduceRequest
from tailrace.protocol.records.batch import TRANSACTIONAL, BatchHeader, unpack_header
from tailrace.protocol.records.validate import InvalidBatch

ABORTABLE_SINCE = 11
"""Produce versions whose clients know TRANSACTION_ABORTABLE."""
ADDS_PARTITIONS_SINCE = 12
"""Produce versions that add partitions to the transaction, whose epoch rises with each."""
QUESTIONS_MAX = 3
"""How often a coordinator is asked when a marker comes while it answers."""
VERIFY_S_MAX = 30.0
"""How long a coordinator is waited for; then producers are told to try again."""

_RETRIABLE = frozenset(
    {
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)

Check: TypeAlias = Callable[[RequestContext, PartitionLog, memoryview], BatchHeader]
"""Returns the header of a batch whose records are to be checked. Errors: InvalidBatch."""


class Part(NamedTuple):
    """One partition of a request."""

    partition: TopicPartition
    topic_id: bytes | None
    """None: whatever has the name."""
    records: memoryview
    outcome: asyncio.Future[LateOutcome]


class _Ready(NamedTuple):
    """A part that is checked; only its verification may be missing."""

    part: Part
    log: PartitionLog
    header: BatchHeader
    guard: int | None
    """None: nothing has to be verified."""


def must_wait(ctx: RequestContext, transactional_id: str, request: ProduceRequest) -> bool:
    """Whether a request with a transactional id cannot be appended at once."""
    partitions = ctx.broker.partitions
    if partitions.verifying.is_busy(transactional_id):
        return True
    for topic in request.topic_data:
        for data in topic.partition_data:
            log = partitions.get((topic.name, data.index))
            if log is None or (data.records is not None and _may_begin(log, data.records)):
                return True
    return False


def _may_begin(log: PartitionLog, records: Buffer) -> bool:
    """Whether a batch may begin a transaction in the partition; bad ones are judged later.

    Behind what has not had its turn, a marker perhaps, that is not known yet.
    """
    try:
        header = unpack_header(records)
    except BufferUnderflow:
        return False
    return _is_transactional(header) and (
        log.order.is_busy or not log.has_open_transaction(header.producer_id, header.producer_epoch)
    )


def _is_transactional(header: BatchHeader) -> bool:
    return bool(header.attributes & TRANSACTIONAL) and header.producer_id >= 0


class VerifiedProduce:
    """One request, from its turn until everything in it is appended or refused."""

    def __init__(
        self, ctx: RequestContext, transactional_id: str, parts: Sequence[Part], check: Check
    ) -> None:
        self._ctx = ctx
        self._transactional_id = transactional_id
        self._parts = parts
        self._check = check
        self._adds = ctx.header.api_version >= ADDS_PARTITIONS_SINCE

    async def run(self) -> None:
        """Give every part its outcome, or what will give it. Cancel: the rest is unknown."""
        try:
            ready = await self._prepare_all()
            if len({_producer(each) for each in ready if _is_transactional(each.header)}) > 1:
                return self._settle_all(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
            codes = await self._verify(ready)
            for _ in range(QUESTIONS_MAX - 1):
                await _turns(ready)
                renewed = [self._renewed(each, codes) for each in ready]
                if renewed == ready:
                    break
                ready = renewed
                codes = await self._verify(ready)
            for each in ready:
                self._append(each, codes.get(each.part.partition, ErrorCode.NONE))
        except BaseException:
            self._settle_all(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            raise

    async def _prepare_all(self) -> list[_Ready]:
        ready: list[_Ready] = []
        for number, part in enumerate(self._parts):
            if number % AT_ONCE == AT_ONCE - 1:
                await asyncio.sleep(0)
            if (each := await self._prepare(part)) is not None:
                ready.append(each)
        return ready

    async def _prepare(self, part: Part) -> _Ready | None:
        """Open and check; None if that is the end of it."""
        log = await self._ctx.broker.partitions.opening(*part.partition)
        if not isinstance(log, ErrorCode) and part.topic_id not in (None, log.topic_id):
            log = ErrorCode.UNKNOWN_TOPIC_ID  # made anew while this waited
        if isinstance(log, ErrorCode):
            settle(part.outcome, log)
            return None
        header = await self._checked(part, log)
        if not isinstance(header, BatchHeader):
            settle(part.outcome, header)
            return None
        if log.order.is_busy:
            await log.order.turn()
        if not _is_transactional(header) or log.has_open_transaction(
            header.producer_id, header.producer_epoch
        ):
            return _Ready(part, log, header, None)
        guard = log.begin_verification(header, bumps_epoch=self._adds)
        if isinstance(guard, ErrorCode):
            settle(part.outcome, guard)
            return None
        return _Ready(part, log, header, guard)

    async def _checked(self, part: Part, log: PartitionLog) -> BatchHeader | LateOutcome:
        """Check a batch, beside the loop if it is too much for that."""
        ctx, admission = self._ctx, self._ctx.broker.partitions.admission
        user, since = ctx.connection, admission.work.total
        try:
            header = self._check(ctx, log, part.records)
            checked = admission.check(log, part.records, header, user, since)
        except InvalidBatch as error:
            return error.with_traceback(None)  # whose frames would hold the records
        if checked is not None:
            return checked
        return await admission.check_beside(log, part.records, header, user)

    def _renewed(self, ready: _Ready, codes: Mapping[TopicPartition, ErrorCode]) -> _Ready:
        """Return the part with the guard that holds now: another one if a marker has come.

        It was the former transaction's, from a broker that says yes to this one after all of them;
        or it has ended this one, and the next answer is no.
        """
        if ready.guard is None or codes.get(ready.part.partition):
            return ready
        guard = ready.log.begin_verification(ready.header, bumps_epoch=self._adds)
        return ready if isinstance(guard, ErrorCode) else ready._replace(guard=guard)

    async def _verify(self, ready: list[_Ready]) -> Mapping[TopicPartition, ErrorCode]:
        """Ask the coordinator, which waits itself while it ends the producer's last transaction."""
        unverified = [each for each in ready if each.guard is not None]
        if not unverified:
            return {}
        ask = self._ctx.broker.transactions.verification.ask
        partitions = tuple(each.part.partition for each in unverified)
        producer = _producer(unverified[0])
        try:
            async with asyncio.timeout(VERIFY_S_MAX):
                return await ask(
                    Question(self._transactional_id, *producer, partitions, self._adds)
                )
        except TimeoutError:
            return dict.fromkeys(partitions, ErrorCode.NETWORK_EXCEPTION)

    def _append(self, ready: _Ready, code: ErrorCode) -> None:
        part, log, header, guard = ready
        if code:
            settle(part.outcome, _refusal(code, self._ctx.header.api_version))
            return
        append = (
            log.append(part.records, header)
            if guard is None
            else log.append_verified(part.records, header, guard)
        )
        follow(append, part.outcome)

    def _settle_all(self, code: ErrorCode) -> None:
        for part in self._parts:
            settle(part.outcome, code)


async def _turns(ready: Sequence[_Ready]) -> None:
    """Wait until what came before in each partition had its turn."""
    for each in ready:
        if each.log.order.is_busy:
            await each.log.order.turn()


def _producer(ready: _Ready) -> tuple[int, int]:
    return ready.header.producer_id, ready.header.producer_epoch


def _refusal(code: ErrorCode, version: int) -> LateOutcome:
    """Say what the coordinator's no is to a producer of this version.

    What it may try again is NOT_ENOUGH_REPLICAS: all producers know that, and none looks for
    another leader on it.
    """
    if code is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if code is ErrorCode.TRANSACTION_ABORTABLE and version < ABORTABLE_SINCE:
        code = ErrorCode.INVALID_TXN_STATE
    if code is ErrorCode.INVALID_TXN_STATE:
        return InvalidBatch(code, "The partition is not in the transaction.")
    is_busy = code is ErrorCode.CONCURRENT_TRANSACTIONS and version < ADDS_PARTITIONS_SINCE
    if code in _RETRIABLE or is_busy:
        message = f"The transaction could not be verified: {code.name}."
        return InvalidBatch(ErrorCode.NOT_ENOUGH_REPLICAS, message)
    return code
