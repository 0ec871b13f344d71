"""Fetch sessions through the handler: what is told, what costs nothing, how they end."""

import asyncio
from collections.abc import Sequence

import pytest

from tailrace.broker.config import BrokerConfig
from tailrace.core.errors import LedgerFenced, OwnershipLost
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.ids import TopicPartition
from tailrace.protocol.kafka.apis import FETCH
from tailrace.protocol.kafka.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)
from tests.unit.broker.fakes import World, batch, make_world
from tests.unit.broker.handlers.ask import ask, call
from tests.unit.broker.loops import in_loop, turns

E = ErrorCode
ID = bytes(15) + b"\1"


async def filled(partitions: int = 3, *, slots: int = 1000) -> World:
    """Return a world whose partitions of topic t hold two records each."""
    world = make_world(config=BrokerConfig(fetch_session_slots=slots))
    world.topics.add("t", partitions)
    for partition in range(partitions):
        await (await world.open("t", partition)).append(batch(2))
    return world


class Client:
    """A consumer with a session."""

    def __init__(self, world: World, version: int = 13) -> None:
        self.world = world
        self.version = version
        self.session, self.epoch = 0, 0

    def request(
        self,
        *partitions: tuple[int, int],
        forget: Sequence[int] = (),
        wait_ms: int = 0,
        each_max: int = 1 << 20,
        isolation: int = 0,
        max_bytes: int = 1 << 20,
    ) -> FetchRequest:
        asked = [
            FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=each_max)
            for partition, offset in partitions
        ]
        topics = [FetchTopic(topic="t", topic_id=ID, partitions=asked)] if asked else []
        gone = [ForgottenTopic(topic="t", topic_id=ID, partitions=forget)] if forget else []
        return FetchRequest(
            session_id=self.session,
            session_epoch=self.epoch,
            max_wait_ms=wait_ms,
            min_bytes=1,
            max_bytes=max_bytes,
            isolation_level=isolation,
            topics=topics,
            forgotten_topics_data=gone,
        )

    async def poll(self, *partitions: tuple[int, int], **more: int) -> list[PartitionData]:
        return self.noted(
            await ask(self.world, FETCH, self.version, self.request(*partitions, **more))  # type: ignore[arg-type]
        )

    def noted(self, response: FetchResponse) -> list[PartitionData]:
        assert response.error_code == 0, E(response.error_code)
        self.session = response.session_id
        self.epoch += 1
        return told(response)


def told(response: FetchResponse) -> list[PartitionData]:
    return [each for topic in response.responses for each in topic.partitions]


def partitions_of(answers: list[PartitionData]) -> list[int]:
    return [each.partition_index for each in answers]


async def session_at_the_end(partitions: int = 3, version: int = 13) -> tuple[World, Client]:
    world = await filled(partitions)
    client = Client(world, version)
    await client.poll(*((each, 2) for each in range(partitions)))
    return world, client


@pytest.mark.parametrize("version", [7, 11, 12, 13, 18])
@in_loop
async def test_after_the_first_answer_only_news_are_told(version: int) -> None:
    world, client = await session_at_the_end(version=version)
    assert client.session > 0
    assert await client.poll() == []
    await (await world.open("t", 1)).append(batch(3))
    (news,) = await client.poll()
    assert (news.partition_index, news.high_watermark) == (1, 5)
    assert partitions_of(await client.poll()) == [1]  # it is still there: nobody took note of it
    assert await client.poll((1, 5)) == []


@in_loop
async def test_a_poll_that_finds_nothing_new_asks_no_log(monkeypatch: pytest.MonkeyPatch) -> None:
    world, client = await session_at_the_end()
    for each in world.broker.partitions.all():
        monkeypatch.setattr(each, "read_tail", None)
        monkeypatch.setattr(each, "end_for", None)
    assert await client.poll() == []


@in_loop
async def test_a_waiting_poll_is_woken_by_any_partition_and_registers_nowhere_anew() -> None:
    world, client = await session_at_the_end()
    logs = [await world.open("t", each) for each in range(3)]
    assert [len(log.waiters) for log in logs] == [1, 1, 1]
    request = client.request(wait_ms=60_000)
    task = asyncio.get_running_loop().create_task(ask(world, FETCH, 13, request))
    await turns()
    assert [len(log.waiters) for log in logs] == [1, 1, 1]
    await logs[2].append(batch(1))
    assert partitions_of(client.noted(await task)) == [2]
    assert [len(log.waiters) for log in logs] == [1, 1, 0]
    assert await client.poll((2, 3)) == []
    assert [len(log.waiters) for log in logs] == [1, 1, 1]


@in_loop
async def test_what_happens_while_a_poll_collects_is_not_slept_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world, client = await session_at_the_end(2)
    first, second = [await world.open("t", each) for each in range(2)]
    await first.append(batch(1))
    first.tail.clear()
    read = first.read_log

    async def read_log(*args: object, **more: object) -> object:
        await second.append(batch(1))
        found = await read(*args, **more)  # type: ignore[arg-type]
        return found._replace(parts=(), size=0)

    monkeypatch.setattr(first, "read_log", read_log)
    assert 1 in partitions_of(await client.poll(wait_ms=60_000))


@in_loop
async def test_partitions_that_gave_records_go_last() -> None:
    world = await filled(3)
    client = Client(world)
    size = len(batch(2))
    first = await client.poll((0, 0), (1, 0), (2, 0), max_bytes=size)
    assert [bool(each.records) for each in first] == [True, False, False]
    orders = []
    for _ in range(3):
        answers = await client.poll(max_bytes=size)
        orders.append([each.partition_index for each in answers if each.records])
    assert orders == [[1], [2], [0]]


@pytest.mark.parametrize("cached", [True, False])
@in_loop
async def test_a_full_answer_leaves_the_rest_to_the_next_poll(cached: bool) -> None:
    """Partitions that do not fit are not even looked at: their errors and marks wait, too."""
    world, client = await session_at_the_end(5)
    size = len(batch(4))
    for each in range(5):
        log = await world.open("t", each)
        await log.append(batch(4))
        if not cached:
            log.tail.clear()
    seen = [partitions_of(await client.poll(max_bytes=2 * size + 9)) for _ in range(3)]
    assert seen == [[0, 1, 2], [2, 3, 4], [4, 0]]
    assert partitions_of(await client.poll(max_bytes=10 * size)) == [1, 2, 3, 4, 0]


@in_loop
async def test_an_answer_that_cannot_grow_does_not_wait_for_more() -> None:
    world, client = await session_at_the_end(3)
    size = len(batch(4))
    for each in range(3):
        await (await world.open("t", each)).append(batch(4))
    request = client.request(max_bytes=2 * size - 1, wait_ms=60_000)
    request.min_bytes = 2 * size - 1
    answer = call(world, FETCH, 13, request)
    assert isinstance(answer, FetchResponse)
    assert partitions_of(client.noted(answer)) == [0, 1]


@pytest.mark.parametrize("epoch", [0, -1])
@in_loop
async def test_a_partition_that_is_named_twice_is_where_it_was_named_last(epoch: int) -> None:
    world = await filled(1)
    client = Client(world)
    client.epoch = epoch
    (first,) = await client.poll((0, 2), (0, 0), max_bytes=1)
    assert len(first.records or b"") > 0
    if epoch == 0:
        assert partitions_of(await client.poll()) == [0]


@in_loop
async def test_forgotten_and_added_partitions() -> None:
    world, client = await session_at_the_end()
    for each in range(3):
        await (await world.open("t", each)).append(batch(1))
    assert partitions_of(await client.poll(forget=[0, 2])) == [1]  # type: ignore[arg-type]
    assert partitions_of(await client.poll((2, 2))) == [1, 2]


@in_loop
async def test_a_session_without_partitions_is_over() -> None:
    world, client = await session_at_the_end(1)
    assert await client.poll(forget=[0]) == []  # type: ignore[arg-type]
    assert (client.session, len(world.broker.fetch_sessions)) == (0, 0)
    assert len((await world.open("t", 0)).waiters) == 0


@pytest.mark.parametrize(
    ("session", "epoch", "version", "code"),
    [
        (1, 1, 13, E.FETCH_SESSION_ID_NOT_FOUND),
        (0, 5, 13, E.INVALID_FETCH_SESSION_EPOCH),
        (0, 1, 12, E.FETCH_SESSION_TOPIC_ID_ERROR),
    ],
)
@in_loop
async def test_wrong_sessions_are_refused_whole(
    session: int, epoch: int, version: int, code: ErrorCode
) -> None:
    world, client = await session_at_the_end()
    request = client.request((0, 0))
    request.session_id += session
    request.session_epoch = epoch
    response = await ask(world, FETCH, version, request)
    assert (response.error_code, response.session_id, response.responses) == (code, 0, ())
    assert await client.poll() == []  # it goes on as if nothing had been


@in_loop
async def test_a_full_fetch_closes_the_session_it_names() -> None:
    world, client = await session_at_the_end()
    first, client.epoch = client.session, 0
    await client.poll((0, 2))
    assert client.session not in (0, first)
    client.epoch = -1
    await client.poll((0, 2))
    assert (client.session, len(world.broker.fetch_sessions)) == (0, 0)


@in_loop
async def test_without_a_place_for_it_there_is_no_session() -> None:
    world = await filled(slots=0)
    client = Client(world)
    await client.poll((0, 0))
    assert client.session == 0


@in_loop
async def test_errors_are_told_each_time_and_so_is_their_end() -> None:
    world = make_world()
    client = Client(world, 12)
    codes = [each.error_code for _ in range(3) for each in await client.poll((0, 0))]
    assert codes == [E.UNKNOWN_TOPIC_OR_PARTITION] * 3
    world.topics.add("t")
    (known,) = await client.poll()
    assert (known.error_code, known.high_watermark) == (0, 0)
    assert await client.poll() == []


@in_loop
async def test_a_partition_that_is_not_there_does_not_end_the_wait_for_the_others() -> None:
    world, client = await session_at_the_end(1)
    assert [each.error_code for each in await client.poll((7, 0))] == [3]
    loop = asyncio.get_running_loop()
    task = loop.create_task(ask(world, FETCH, 13, client.request(wait_ms=60_000)))
    await turns(20)
    assert not task.done()
    await (await world.open("t", 0)).append(batch(1))
    answers = client.noted(await task)
    assert {each.partition_index: each.error_code for each in answers} == {7: 3, 0: 0}
    assert [each.error_code for each in await client.poll(forget=[0], wait_ms=60_000)] == [3]


@in_loop
async def test_a_waiting_poll_is_told_of_a_topic_that_is_deleted() -> None:
    world, client = await session_at_the_end(2, version=12)
    world.topics.add("u")
    await (await world.open("u", 0)).append(batch(2))
    other = FetchTopic(
        topic="u",
        partitions=[FetchPartition(partition=0, fetch_offset=2, partition_max_bytes=99)],
    )
    request = client.request()
    request.topics = [other]
    client.noted(await ask(world, FETCH, 12, request))
    loop = asyncio.get_running_loop()
    task = loop.create_task(ask(world, FETCH, 12, client.request(wait_ms=60_000)))
    await turns(20)
    assert not task.done()
    await world.topics.delete("t")
    assert [each.error_code for each in client.noted(await task)] == [3, 3]
    task = loop.create_task(ask(world, FETCH, 12, client.request(wait_ms=60_000)))
    await turns(20)
    assert not task.done(), "that is known by now"
    await (await world.open("u", 0)).append(batch(1))
    assert sorted(each.error_code for each in client.noted(await task)) == [0, 3, 3]


@in_loop
async def test_a_topic_that_is_deleted_is_an_unknown_id_and_the_new_one_too() -> None:
    world, client = await session_at_the_end()
    await world.topics.delete("t")
    assert [each.error_code for each in await client.poll()] == [E.UNKNOWN_TOPIC_ID] * 3
    world.topics.add("t", 3)
    assert [each.error_code for each in await client.poll()] == [E.UNKNOWN_TOPIC_ID] * 3


@in_loop
async def test_a_waiting_poll_goes_on_at_the_log_that_takes_the_place_of_one_that_failed() -> None:
    world, client = await session_at_the_end(1)
    writer = world.log("t").writer
    assert writer is not None
    task = asyncio.get_running_loop().create_task(
        ask(world, FETCH, 13, client.request(wait_ms=60_000))
    )
    await turns()
    writer.fail(LedgerFenced("another owner"))
    await turns(20)
    assert not task.done()
    await (await world.open("t", 0)).append(batch(1))
    (news,) = client.noted(await task)
    assert (news.error_code, news.high_watermark) == (0, 3)


@in_loop
async def test_a_log_that_cannot_be_opened_again_is_told() -> None:
    world, client = await session_at_the_end(1)
    writer = world.log("t").writer
    assert writer is not None
    task = asyncio.get_running_loop().create_task(
        ask(world, FETCH, 13, client.request(wait_ms=60_000))
    )
    await turns()
    world.log("t").open_error = OwnershipLost("another owner")
    writer.fail(LedgerFenced("another owner"))
    assert [each.error_code for each in client.noted(await task)] == [E.NOT_LEADER_OR_FOLLOWER]


@in_loop
async def test_a_log_start_that_moves_is_told() -> None:
    world, client = await session_at_the_end(1)
    (await world.open("t", 0)).move_start(1)
    assert [each.log_start_offset for each in await client.poll()] == [1]
    assert await client.poll() == []


@in_loop
async def test_a_second_request_of_a_session_outdates_the_first() -> None:
    world, client = await session_at_the_end(1)
    first = asyncio.get_running_loop().create_task(
        ask(world, FETCH, 13, client.request(wait_ms=60_000))
    )
    await turns()
    client.epoch += 1
    assert await client.poll() == []
    outdated = await first
    assert (outdated.error_code, outdated.session_id) == (
        E.INVALID_FETCH_SESSION_EPOCH,
        client.session,
    )


@in_loop
async def test_an_outdated_poll_takes_nothing_from_the_one_that_outdates_it() -> None:
    world, client = await session_at_the_end(2)
    outdated = asyncio.get_running_loop().create_task(
        ask(world, FETCH, 13, client.request(wait_ms=60_000))
    )
    await turns()
    client.epoch += 1
    (await world.open("t", 0)).tail.clear()  # so the second poll waits for the log at its first
    assert partitions_of(await client.poll((0, 0), (1, 0))) == [0, 1]
    assert (await outdated).error_code == E.INVALID_FETCH_SESSION_EPOCH


@in_loop
async def test_a_poll_whose_client_went_away_loses_nothing() -> None:
    """Of what it had begun to look at the next poll hears again."""
    world, client = await session_at_the_end(2)
    (await world.open("t", 1)).move_start(1)
    task = asyncio.get_running_loop().create_task(
        call(world, FETCH, 13, client.request(wait_ms=60_000))
    )
    await turns()
    task.cancel()
    await turns()
    client.epoch += 1
    assert partitions_of(await client.poll()) == [1]


@in_loop
async def test_an_evicted_session_ends_the_poll_that_waits_in_it() -> None:
    world, client = await session_at_the_end(1)
    task = asyncio.get_running_loop().create_task(
        ask(world, FETCH, 13, client.request(wait_ms=60_000))
    )
    await turns()
    world.broker.fetch_sessions.remove(client.session)
    assert (await task).error_code == E.INVALID_FETCH_SESSION_EPOCH
    assert len((await world.open("t", 0)).waiters) == 0


@in_loop
async def test_a_partition_that_was_closed_is_found_again() -> None:
    world, client = await session_at_the_end(1)
    await world.broker.partitions.close_partition(TopicPartition("t", 0))
    assert await client.poll() == []
    await (await world.open("t", 0)).append(batch(1))
    assert partitions_of(await client.poll()) == [0]
