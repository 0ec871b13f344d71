"""Produce within transactions: what the coordinator is asked, what becomes of its answers."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Self, TypeAlias

import pytest

from tailrace.broker.handlers import _verified_produce as module
from tailrace.broker.partition import partition_logs
from tailrace.broker.transactions.peer_requests import Question
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.ids import TopicPartition
from tailrace.protocol.kafka.apis import PRODUCE
from tailrace.protocol.kafka.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from tests.unit.broker.fakes import World, batch, make_world
from tests.unit.broker.handlers.ask import ask, call
from tests.unit.broker.loops import in_loop, turns, until
from tests.unit.broker.partition.transaction_support import end, transactional, write

E = ErrorCode
LATEST = PRODUCE.versions[-1]


Answer: TypeAlias = asyncio.Future[Mapping[TopicPartition, ErrorCode]]


class Coordinator:
    """A transaction coordinator that notes what it is asked, and answers as it is told to."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, int, int, list[tuple[str, int]]]] = []
        self.codes: dict[tuple[str, int], ErrorCode] = {}
        self.holds: asyncio.Event | None = None
        self.meanwhile: Callable[[], object] = lambda: None

    @property
    def verification(self) -> Self:
        return self

    def ask(self, question: Question) -> Answer:
        return asyncio.ensure_future(self._answer(question))

    async def _answer(self, question: Question) -> Mapping[TopicPartition, ErrorCode]:
        name, producer, epoch, wanted, adds = question
        kind = "add" if adds else "verify"
        self.asked.append((kind, name, producer, epoch, [tuple(each) for each in wanted]))
        answer = {each: self.codes.get(each, E.NONE) for each in wanted}
        if self.holds is not None:
            await self.holds.wait()
        self.meanwhile()
        return answer


def prepared(*, auto: bool = True) -> tuple[World, Coordinator]:
    world, coordinator = make_world(auto=auto), Coordinator()
    world.broker.transactions = coordinator  # type: ignore[assignment]
    world.topics.add("t", 3)
    return world, coordinator


def request(*what: tuple[int, memoryview], transactional_id: str | None = "x") -> ProduceRequest:
    return ProduceRequest(
        acks=-1,
        timeout_ms=1000,
        transactional_id=transactional_id,
        topic_data=[
            TopicProduceData(
                name="t",
                topic_id=bytes(15) + b"\1",
                partition_data=[PartitionProduceData(index=i, records=r) for i, r in what],
            )
        ],
    )


async def produce(
    world: World, *what: tuple[int, memoryview], version: int = 11, **options: Any
) -> list[PartitionProduceResponse]:
    response = await ask(world, PRODUCE, version, request(*what, **options))
    return [each for topic in response.responses for each in topic.partition_responses]


async def codes(
    world: World, *what: tuple[int, memoryview], **options: Any
) -> list[tuple[ErrorCode, int]]:
    answers = await produce(world, *what, **options)
    return [(E(each.error_code), each.base_offset) for each in answers]


@in_loop
async def test_only_the_first_batch_in_a_partition_is_verified() -> None:
    world, coordinator = prepared()
    assert await codes(world, (0, transactional(7, 0)), (1, transactional(7, 0))) == [
        (E.NONE, 0), (E.NONE, 0),
    ]  # fmt: skip
    assert coordinator.asked == [("verify", "x", 7, 0, [("t", 0), ("t", 1)])]
    assert await codes(world, (0, transactional(7, 1)), (2, transactional(7, 0))) == [
        (E.NONE, 1), (E.NONE, 0),
    ]  # fmt: skip
    assert coordinator.asked[1:] == [("verify", "x", 7, 0, [("t", 2)])]
    assert await codes(world, (0, transactional(7, 2))) == [(E.NONE, 2)]
    await end(await world.open("t"), 7)
    assert await codes(world, (0, transactional(7, 3))) == [(E.NONE, 4)]
    assert len(coordinator.asked) == 3


@in_loop
async def test_batches_outside_of_transactions_are_asked_about_never() -> None:
    world, coordinator = prepared()
    assert await codes(world, (0, batch(1))) == [(E.NONE, 0)]
    assert await codes(world, (0, batch(1)), transactional_id=None) == [(E.NONE, 1)]
    assert coordinator.asked == []
    refused = await codes(world, (0, transactional(7, 0)), transactional_id=None)
    assert refused == [(E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, -1)]


@pytest.mark.parametrize(
    ("answer", "version", "code"),
    [
        (E.TRANSACTION_ABORTABLE, 10, E.INVALID_TXN_STATE),
        (E.TRANSACTION_ABORTABLE, 11, E.TRANSACTION_ABORTABLE),
        (E.INVALID_TXN_STATE, 11, E.INVALID_TXN_STATE),
        (E.PRODUCER_FENCED, 11, E.INVALID_PRODUCER_EPOCH),
        (E.INVALID_PRODUCER_EPOCH, 11, E.INVALID_PRODUCER_EPOCH),
        (E.INVALID_PRODUCER_ID_MAPPING, 11, E.INVALID_PRODUCER_ID_MAPPING),
        (E.CONCURRENT_TRANSACTIONS, 11, E.NOT_ENOUGH_REPLICAS),
        (E.COORDINATOR_LOAD_IN_PROGRESS, 11, E.NOT_ENOUGH_REPLICAS),
        (E.COORDINATOR_NOT_AVAILABLE, 9, E.NOT_ENOUGH_REPLICAS),
        (E.NOT_COORDINATOR, 3, E.NOT_ENOUGH_REPLICAS),
    ],
)
@in_loop
async def test_what_a_no_becomes(answer: ErrorCode, version: int, code: ErrorCode) -> None:
    world, coordinator = prepared()
    coordinator.codes["t", 1] = answer
    got = await codes(world, (0, transactional(7, 0)), (1, transactional(7, 0)), version=version)
    assert got == [(E.NONE, 0), (code, -1)]
    assert (await world.open("t", 1)).log_end_offset == 0


@pytest.mark.parametrize("version", [12, 13])
@in_loop
async def test_from_version_12_on_the_first_batch_adds_the_partition(version: int) -> None:
    world, coordinator = prepared()
    assert await codes(world, (0, transactional(7, 0)), version=version) == [(E.NONE, 0)]
    assert await codes(world, (0, transactional(7, 1)), version=version) == [(E.NONE, 1)]
    assert coordinator.asked == [("add", "x", 7, 0, [("t", 0)])]


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (E.CONCURRENT_TRANSACTIONS, E.CONCURRENT_TRANSACTIONS),
        (E.COORDINATOR_LOAD_IN_PROGRESS, E.NOT_ENOUGH_REPLICAS),
    ],
)
@in_loop
async def test_version_12_is_told_that_its_last_transaction_is_not_over(
    answer: ErrorCode, code: ErrorCode
) -> None:
    world, coordinator = prepared()
    coordinator.codes["t", 0] = answer
    assert await codes(world, (0, transactional(7, 0)), version=12) == [(code, -1)]


@in_loop
async def test_a_producers_later_batches_wait_behind_one_that_is_verified() -> None:
    world, coordinator = prepared()
    await world.open("t")
    coordinator.holds = asyncio.Event()
    first = asyncio.create_task(codes(world, (0, transactional(7, 0))))
    await until(lambda: bool(coordinator.asked))
    second = asyncio.create_task(codes(world, (0, transactional(7, 1))))
    other = await codes(world, (1, batch(1)), transactional_id=None)
    assert other == [(E.NONE, 0)], "nobody else waits"
    await turns()
    assert not first.done()
    assert not second.done()
    coordinator.holds.set()
    assert await first == [(E.NONE, 0)]
    assert await second == [(E.NONE, 1)]
    assert len(coordinator.asked) == 1


@in_loop
async def test_a_batch_of_an_open_transaction_waits_behind_a_request_that_is_verified() -> None:
    world, coordinator = prepared()
    assert await codes(world, (0, transactional(7, 0))) == [(E.NONE, 0)]
    coordinator.holds = asyncio.Event()
    first = asyncio.create_task(
        codes(world, (0, transactional(7, 1)), (1, transactional(7, 0)))
    )  # its second partition has to be verified, so its first waits too
    await until(lambda: len(coordinator.asked) == 2)
    second = asyncio.create_task(codes(world, (0, transactional(7, 2))))
    await turns()
    assert not second.done()
    coordinator.holds.set()
    assert await first == [(E.NONE, 1), (E.NONE, 0)]
    assert await second == [(E.NONE, 2)]


@in_loop
async def test_a_later_batch_does_not_overtake_one_that_has_to_be_tried_again() -> None:
    world, coordinator = prepared()
    coordinator.codes["t", 0] = E.COORDINATOR_LOAD_IN_PROGRESS
    assert await codes(world, (0, transactional(7, 0))) == [(E.NOT_ENOUGH_REPLICAS, -1)]
    coordinator.codes.clear()
    assert await codes(world, (0, transactional(7, 1))) == [(E.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)]
    assert await codes(world, (0, transactional(7, 0))) == [(E.NONE, 0)]
    assert await codes(world, (0, transactional(7, 1))) == [(E.NONE, 1)]


@in_loop
async def test_an_abort_while_the_coordinator_answers_wins() -> None:
    world, coordinator = prepared()
    log = await world.open("t")
    coordinator.holds = asyncio.Event()
    first = asyncio.create_task(codes(world, (0, transactional(7, 0))))
    await until(lambda: bool(coordinator.asked))
    await end(log, 7, commit=False)
    coordinator.codes["t", 0] = E.TRANSACTION_ABORTABLE  # from now on: the first yes is given
    coordinator.holds.set()
    assert await first == [(E.TRANSACTION_ABORTABLE, -1)]
    assert len(coordinator.asked) == 2
    assert log.last_stable_offset == 1


@in_loop
async def test_a_late_marker_of_the_former_transaction_has_the_coordinator_asked_again() -> None:
    """It comes from another broker, which says yes only after all of its markers."""
    world, coordinator = prepared()
    log = await world.open("t")
    await write(log, 7, 0)
    coordinator.holds = asyncio.Event()
    produced = (0, transactional(7, 0, epoch=1)), (1, transactional(7, 0, epoch=1))
    next_one = asyncio.create_task(codes(world, *produced, version=12))
    await until(lambda: bool(coordinator.asked))
    await log.append_marker(7, 1, 0, True, 2)
    coordinator.holds.set()
    assert await next_one == [(E.NONE, 2), (E.NONE, 0)]
    assert len(coordinator.asked) == 2
    assert log.last_stable_offset == 2


@in_loop
async def test_markers_without_end_are_not_waited_out() -> None:
    world, coordinator = prepared()
    log = await world.open("t")
    coordinator.meanwhile = lambda: end(log, 7)
    assert await codes(world, (0, transactional(7, 0))) == [(E.INVALID_TXN_STATE, -1)]
    assert len(coordinator.asked) == module.QUESTIONS_MAX


@in_loop
async def test_each_partition_has_its_own_refusal() -> None:
    world, coordinator = prepared()
    broken = transactional(7, 0)
    broken[-1] ^= 1
    got = await codes(
        world, (0, broken), (9, transactional(7, 0)), (1, batch(1)), (2, transactional(7, 0))
    )
    assert [code for code, _ in got] == [
        E.CORRUPT_MESSAGE, E.UNKNOWN_TOPIC_OR_PARTITION, E.NONE, E.NONE,
    ]  # fmt: skip
    assert coordinator.asked == [("verify", "x", 7, 0, [("t", 2)])]
    fenced = await codes(world, (2, transactional(7, 0, epoch=-1)))
    assert fenced == [(E.INVALID_PRODUCER_EPOCH, -1)]


@in_loop
async def test_two_producers_in_one_request_are_refused() -> None:
    world, coordinator = prepared()
    got = await codes(world, (0, transactional(7, 0)), (1, transactional(8, 0)))
    assert got == [(E.INVALID_PRODUCER_ID_MAPPING, -1)] * 2
    assert coordinator.asked == []


@in_loop
async def test_what_waits_is_bounded_and_a_coordinator_that_is_silent_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "VERIFY_S_MAX", 0.01)
    world, coordinator = prepared()
    coordinator.holds = asyncio.Event()
    assert await codes(world, (0, transactional(7, 0))) == [(E.NOT_ENOUGH_REPLICAS, -1)]
    assert partition_logs.VERIFYING_MAX == 128
    monkeypatch.setattr(module, "VERIFY_S_MAX", 20)
    asked = len(coordinator.asked)
    waiting = [
        asyncio.create_task(codes(world, (0, transactional(7, number)))) for number in range(129)
    ]
    await until(lambda: len(coordinator.asked) > asked)
    await turns()
    assert await codes(world, (0, transactional(7, 129))) == [(E.NOT_ENOUGH_REPLICAS, -1)]
    coordinator.holds.set()
    assert [(await each)[0] for each in waiting] == [(E.NONE, number) for number in range(129)]


@in_loop
async def test_closing_answers_what_waits_as_unknown() -> None:
    world, coordinator = prepared()
    coordinator.holds = asyncio.Event()
    waiting = asyncio.create_task(codes(world, (0, transactional(7, 0))))
    await until(lambda: bool(coordinator.asked))
    await world.broker.partitions.close()
    assert await waiting == [(E.NOT_LEADER_OR_FOLLOWER, -1)]


@in_loop
async def test_an_open_transaction_costs_a_produce_no_task() -> None:
    world, coordinator = prepared(auto=False)
    log = await world.open("t")
    data = transactional(7, 0)
    log.append(data, log.check(data), verified=True)
    tasks = len(asyncio.all_tasks())
    call(world, PRODUCE, 11, request((0, transactional(7, 1))))
    assert log.log_end_offset == 2, "appended before the handler returns"
    assert len(asyncio.all_tasks()) == tasks
    assert coordinator.asked == []
