"""A consumer with a session, through whatever happens, ends up knowing what one without knows."""

import asyncio
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.protocol.ids import TopicPartition
from tailrace.protocol.kafka.apis import FETCH
from tailrace.protocol.kafka.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
)
from tailrace.protocol.records.batch import read_header, split_batches
from tests.unit.broker.fakes import World, batch, make_world
from tests.unit.broker.handlers.ask import ask

PARTITIONS = 4
SIZE = len(batch(2))

indexes = st.integers(0, PARTITIONS - 1)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("append"), indexes),
        st.tuples(st.just("poll"), st.sampled_from([1, SIZE * 3 // 2, SIZE * 7 // 2, 1 << 20])),
        st.tuples(st.just("poll"), st.just(SIZE * 3 // 2)),
        st.tuples(st.just("pause"), indexes),
        st.tuples(st.just("resume"), indexes),
        st.tuples(st.just("rewind"), indexes),
        st.tuples(st.just("trim"), indexes),
        st.tuples(st.just("evict"), indexes),
        st.tuples(st.just("reopen"), indexes),
        st.tuples(st.just("lose"), indexes),
        st.tuples(st.just("isolate"), indexes),
    ),
    max_size=40,
)


class Consumer:
    """What Java's FetchSessionHandler does: names only what differs from the last request."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.session, self.epoch, self.isolation = 0, 0, 0
        self.wanted = dict.fromkeys(range(PARTITIONS), 0)
        self.sent: dict[int, int] = {}
        self.high_watermarks: dict[int, int] = {}
        self.positions = dict.fromkeys(range(PARTITIONS), 0)

    def request(self, max_bytes: int) -> FetchRequest:
        changed = {
            index: self.positions[index]
            for index in self.wanted
            if self.sent.get(index) != self.positions[index] or not self.epoch
        }
        gone = [index for index in self.sent if index not in self.wanted] if self.epoch else []
        self.sent = {index: self.positions[index] for index in self.wanted}
        asked = [
            FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=1 << 20)
            for index, offset in changed.items()
        ]
        return FetchRequest(
            session_id=self.session,
            session_epoch=self.epoch,
            isolation_level=self.isolation,
            min_bytes=1,
            max_bytes=max_bytes,
            topics=[FetchTopic(topic="t", partitions=asked)] if asked else [],
            forgotten_topics_data=[ForgottenTopic(topic="t", partitions=gone)] if gone else [],
        )

    async def poll(self, max_bytes: int, *, loses: bool = False) -> bool:
        """Ask and take note; return whether there was anything new."""
        answer = await ask(self.world, FETCH, 11, self.request(max_bytes))
        if loses:  # the answer never came: the client begins anew
            self.session, self.epoch, self.sent = 0, 0, {}
            return True
        if answer.error_code:
            self.session, self.epoch, self.sent = 0, 0, {}
            return True
        self.session = answer.session_id
        self.epoch = self.epoch + 1 if answer.session_id else 0
        return self._take(answer)

    def _take(self, answer: FetchResponse) -> bool:
        news = False
        for topic in answer.responses:
            for data in topic.partitions:
                index = data.partition_index
                assert index in self.wanted, "told of what it forgot"
                if data.error_code:
                    self.positions[index] = self.world_start(index)
                    news = True
                    continue
                news |= self.high_watermarks.get(index) != data.high_watermark
                self.high_watermarks[index] = data.high_watermark
                records = bytes(data.records or b"")  # type: ignore[arg-type]
                for start, _ in split_batches(records):
                    header = read_header(records, start)
                    assert header.base_offset <= self.positions[index] <= header.last_offset
                    self.positions[index] = header.last_offset + 1
                    news = True
        return news

    def world_start(self, index: int) -> int:
        log = self.world.broker.partitions.get(("t", index))
        return log.log_start_offset if log is not None else 0


async def story(done: list[tuple[str, int]]) -> None:
    world = make_world()
    world.topics.add("t", PARTITIONS)
    for index in (*range(PARTITIONS), 0, 1):
        await _step(world, Consumer(world), "append", index)
    consumer = Consumer(world)
    for what, number in done:
        await _step(world, consumer, what, number)
    for _ in range(60):
        if not await consumer.poll(1 << 20):
            break
    for index in consumer.wanted:
        log = await world.open("t", index)
        assert consumer.positions[index] == log.high_watermark
        assert consumer.high_watermarks[index] == log.high_watermark
    sessions = world.broker.fetch_sessions
    assert sessions.metrics.sessions == len(sessions) <= 1 + sum(what == "lose" for what, _ in done)


async def _step(world: World, consumer: Consumer, what: str, number: int) -> None:
    actions: dict[str, Any] = {
        "pause": lambda: consumer.wanted.pop(number, None),
        "resume": lambda: consumer.wanted.setdefault(number, 0),
        "rewind": lambda: consumer.positions.update({number: consumer.world_start(number)}),
        "evict": lambda: world.broker.fetch_sessions.remove(consumer.session),
        "isolate": lambda: setattr(consumer, "isolation", number % 2),
    }
    if what in actions:
        actions[what]()
    elif what == "append":
        await (await world.open("t", number)).append(batch(2))
    elif what == "poll":
        await consumer.poll(number)
    elif what == "lose":
        await consumer.poll(1 << 20, loses=True)
    elif what == "trim":
        log = await world.open("t", number)
        log.move_start(log.high_watermark - log.high_watermark % 4)
    else:
        await world.broker.partitions.close_partition(TopicPartition("t", number))


@settings(max_examples=150, deadline=None)
@given(steps)
def test_a_session_misses_nothing(done: list[tuple[str, int]]) -> None:
    asyncio.run(story(done))
