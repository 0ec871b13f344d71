"""What may be read changes: fetches that wait, sessions that are idle, records that are found."""

import asyncio

import pytest

from tailrace.broker.fetching.parked import WOKEN_AT_ONCE, ParkedFetches
from tailrace.broker.handlers.fetch import LONG
from tailrace.core.access.acls.model import Operation, ResourceType
from tailrace.core.runtime.loop_turns import PIECE_UNITS
from tailrace.protocol.errors import ErrorCode as E
from tailrace.protocol.kafka.apis import FETCH
from tailrace.protocol.kafka.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from tests.unit.broker.authorization.support import Grant, SetAuthorizer, guard
from tests.unit.broker.fakes import World, batch, make_world
from tests.unit.broker.handlers.ask import ask
from tests.unit.broker.loops import in_loop, turns, until

READ_T: Grant = (Operation.READ, ResourceType.TOPIC, "t")
READ_U: Grant = (Operation.READ, ResourceType.TOPIC, "u")
DENIED = (E.TOPIC_AUTHORIZATION_FAILED, b"")


async def filled(*allowed: Grant) -> tuple[World, SetAuthorizer]:
    """Return a world with two records in each topic."""
    world = make_world()
    for name in ("t", "u"):
        world.topics.add(name, 3)
        await (await world.open(name)).append(batch(2))
    return world, guard(world, *allowed)


class Client:
    """A consumer of partition 0 of some topics, with a session or without."""

    def __init__(self, world: World, version: int, *, with_session: bool) -> None:
        self.world, self.version = world, version
        self.session, self.epoch = (0, 0) if with_session else (0, -1)

    async def poll(self, wait_ms: int = 0, **offsets: int) -> dict[str, tuple[E, bytes]]:
        topics = [
            FetchTopic(
                topic=name,
                topic_id=self._id(name),
                partitions=[
                    FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
                ],
            )
            for name, offset in offsets.items()
        ]
        request = FetchRequest(
            session_id=self.session,
            session_epoch=self.epoch,
            max_wait_ms=wait_ms,
            min_bytes=1,
            max_bytes=1 << 20,
            topics=topics,
        )
        return self._noted(await ask(self.world, FETCH, self.version, request))

    def _id(self, name: str) -> bytes:
        topic = self.world.topics.get(name)
        return topic.topic_id if topic else bytes(15) + b"\x77"

    def _noted(self, answer: FetchResponse) -> dict[str, tuple[E, bytes]]:
        assert answer.error_code == E.NONE
        self.session = answer.session_id
        self.epoch = self.epoch + 1 if answer.session_id else -1
        named = {self._id(name): name for name in ("t", "u")}
        return {
            each.topic or named.get(each.topic_id, "?"): (
                E(data.error_code),
                bytes(data.records or b""),  # type: ignore[arg-type]
            )
            for each in answer.responses
            for data in each.partitions
        }


both = pytest.mark.parametrize("with_session", [True, False])
versions = pytest.mark.parametrize("version", [11, 17])


@both
@versions
@in_loop
async def test_a_fetch_that_waits_is_answered_when_it_may_not_read_any_more(
    version: int, with_session: bool
) -> None:
    world, authorizer = await filled(READ_T, READ_U)
    client = Client(world, version, with_session=with_session)
    first = await client.poll(t=0, u=0)
    assert all(code is E.NONE and records for code, records in first.values())
    task = asyncio.ensure_future(client.poll(60_000, t=2, u=2))
    await until(lambda: len(world.broker.parked) == 1)
    authorizer.change(READ_U)
    answer = await task
    assert answer["t"] == DENIED
    assert answer.get("u", (E.NONE, b"")) == (E.NONE, b"")
    assert len(world.broker.parked) == 0


@both
@versions
@in_loop
async def test_no_record_leaves_that_came_before_the_change(
    version: int, with_session: bool
) -> None:
    world, authorizer = await filled(READ_T)
    client = Client(world, version, with_session=with_session)
    await client.poll(t=0)
    task = asyncio.ensure_future(client.poll(60_000, t=2))
    await until(lambda: len(world.broker.parked) == 1)
    log, fake = await world.open("t"), world.log("t")
    fake.auto = False
    log.append(batch(2))
    assert fake.writer is not None
    fake.writer.confirm()  # the fetch is woken; it goes on in the next turn of the loop
    authorizer.change()
    assert (await task)["t"] == DENIED


@versions
@in_loop
async def test_an_idle_session_hears_of_it_with_its_next_poll(version: int) -> None:
    world, authorizer = await filled(READ_T, READ_U)
    client = Client(world, version, with_session=True)
    await client.poll(t=2, u=2)
    assert client.session
    assert await client.poll() == {}
    authorizer.change(READ_U)
    assert await client.poll() == {"t": DENIED}
    assert await client.poll() == {"t": DENIED}  # as long as it asks
    authorizer.change(READ_T, READ_U)
    assert await client.poll() == {"t": (E.NONE, b"")}
    await (await world.open("t")).append(batch(2))
    assert (await client.poll())["t"][1]


@versions
@in_loop
async def test_what_may_not_be_read_does_not_end_the_wait_for_the_others(version: int) -> None:
    world, _ = await filled(READ_U)
    client = Client(world, version, with_session=False)
    task = asyncio.ensure_future(client.poll(60_000, t=0, u=2))
    await until(lambda: len(world.broker.parked) == 1)
    assert not task.done()
    await (await world.open("u")).append(batch(2))
    answer = await task
    assert answer["t"] == DENIED
    assert answer["u"][1]


@versions
@in_loop
async def test_a_topic_that_is_not_there_is_refused_alike(version: int) -> None:
    world, _ = await filled()
    answer = await Client(world, version, with_session=False).poll(t=0, gone=0)
    unknown_id = (E.UNKNOWN_TOPIC_ID, b"")
    assert answer == {"t": DENIED, **({"gone": DENIED} if version < 13 else {"?": unknown_id})}
    assert world.broker.partitions.get(("gone", 0)) is None


class Sleeping:
    def __init__(self) -> None:
        self.is_awake = False

    def wake(self) -> None:
        self.is_awake = True


@in_loop
async def test_many_are_woken_some_in_a_turn_of_the_loop() -> None:
    parked = ParkedFetches()
    many = [Sleeping() for _ in range(WOKEN_AT_ONCE * 3)]
    for each in many:
        parked.join(each)
    parked.wake_all()
    counts = []
    for _ in range(3):
        await asyncio.sleep(0)
        counts.append(sum(each.is_awake for each in many))
    assert counts == [WOKEN_AT_ONCE, WOKEN_AT_ONCE * 2, WOKEN_AT_ONCE * 3]


@in_loop
async def test_one_more_change_wakes_those_that_came_meanwhile() -> None:
    parked = ParkedFetches()
    first, late = Sleeping(), Sleeping()
    parked.join(first)
    parked.wake_all()
    parked.leave(first)
    parked.join(late)
    parked.wake_all()
    await turns()
    assert late.is_awake
    assert not first.is_awake


@in_loop
async def test_a_change_is_looked_at_in_steps_by_a_fetch_of_many_topics() -> None:
    world = make_world()
    names = [f"t{number}" for number in range(LONG * 4)]
    for name in names:
        world.topics.add(name)
    grants: list[Grant] = [(Operation.READ, ResourceType.TOPIC, name) for name in names]
    authorizer = guard(world, *grants)
    asked = [FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1)]
    topics = [FetchTopic(topic=name, partitions=asked) for name in names]
    request = FetchRequest(
        session_epoch=-1, max_wait_ms=60_000, min_bytes=1, max_bytes=1, topics=topics
    )
    task = asyncio.ensure_future(ask(world, FETCH, 11, request))
    await until(lambda: len(world.broker.parked) == 1)
    authorizer.change(*grants[:-1])
    longest, before = 0, len(authorizer.names)
    while not task.done():
        await asyncio.sleep(0)
        longest = max(longest, len(authorizer.names) - before)
        before = len(authorizer.names)
    assert 0 < longest <= PIECE_UNITS
    assert [t.topic for t in (await task).responses if t.partitions[0].error_code] == [names[-1]]
