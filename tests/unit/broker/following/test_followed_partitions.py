"""Which partitions of other brokers are open here, and until when."""

import asyncio
from pathlib import Path

import pytest

from tailrace.broker.fetching.sessions import SessionKind
from tailrace.broker.following import followed_partitions
from tailrace.broker.following.config import FollowingConfig
from tailrace.broker.partition.trimming import delete_records
from tailrace.broker.partition.waiters import FetchWaiter
from tailrace.protocol.errors import ErrorCode as E
from tailrace.protocol.ids import TopicPartition
from tailrace.protocol.kafka.messages.fetch import FetchPartition
from tests.unit.broker.fakes import batch
from tests.unit.broker.following.world import (
    ME,
    OWNER,
    PARTITION,
    Pair,
    bounded,
    reached,
    run_pair,
)
from tests.unit.broker.loops import until

OTHER = TopicPartition("t", 1)


def test_all_that_ask_get_the_same_one(tmp_path: Path) -> None:
    async def story(pair: Pair) -> None:
        await pair.own()
        asked = [pair.followed.opening(*PARTITION) for _ in range(3)]
        found = {id(await each) for each in asked}
        assert found == {id(pair.followed.get(PARTITION))}
        assert pair.followed.metrics.opened_total == 1

    run_pair(tmp_path, story)


def test_what_is_there_no_more_or_not_to_be_followed_is_refused(tmp_path: Path) -> None:
    async def story(pair: Pair) -> None:
        unknown = await pair.followed.opening("nowhere", 0)
        assert unknown is E.UNKNOWN_TOPIC_OR_PARTITION
        assert await pair.followed.opening(*PARTITION) is E.NOT_LEADER_OR_FOLLOWER  # no stream
        pair.owned_by(ME)
        assert await pair.followed.opening(*OTHER) is E.NOT_LEADER_OR_FOLLOWER
        await pair.followed.close()
        pair.owned_by(OWNER)
        assert await pair.followed.opening(*OTHER) is E.NOT_LEADER_OR_FOLLOWER

    run_pair(tmp_path, story)


def test_no_more_are_open_than_may_be(tmp_path: Path) -> None:
    async def story(pair: Pair) -> None:
        await pair.own()
        await pair.own(OTHER)
        await pair.follow()
        assert await pair.followed.opening(*OTHER) is E.NOT_LEADER_OR_FOLLOWER
        assert pair.followed.metrics.refused_total == 1
        await pair.followed.let_go(PARTITION)
        await pair.follow(OTHER)
        assert pair.followed.metrics.partitions == 1

    run_pair(tmp_path, story, bounded(FollowingConfig(partitions_max=1)))


def test_one_that_no_consumer_fetches_is_closed(tmp_path: Path) -> None:
    async def story(pair: Pair) -> None:
        await pair.own()
        await pair.own(OTHER)
        waited_for, watched = await pair.follow(), await pair.follow(OTHER)
        waiter = FetchWaiter(1, asyncio.get_running_loop().create_future())
        waited_for.waiters.join(waiter)
        session = pair.world.broker.fetch_sessions.create(
            1, SessionKind(privileged=False, uses_topic_ids=False, reads_committed=False), 0
        )
        assert session is not None
        cached = session.add(("t", 1), FetchPartition(partition=1, fetch_offset=0))
        cached.stand(watched.waiters)
        session.parked = waiter
        pair.clock.advance_ms(2000)
        await pair.followed._close_idle()
        assert len(pair.followed) == 2
        session.parked = None  # the client does not poll any more
        pair.clock.advance_ms(2000)
        await pair.followed._close_idle()
        await until(lambda: len(pair.followed) == 1)
        assert watched.failure is E.NOT_LEADER_OR_FOLLOWER
        assert session.has_news  # whoever polls again opens it again
        waited_for.waiters.leave(waiter)
        await pair.followed._close_idle()
        assert pair.followed.get(PARTITION) is waited_for  # which uses it
        pair.clock.advance_ms(2000)
        await pair.followed._close_idle()
        await until(lambda: len(pair.followed) == 0)

    run_pair(tmp_path, story, bounded(FollowingConfig(idle_ms=2000)))


def test_a_sweep_closes_what_is_idle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(followed_partitions, "SWEEP_S", 0.001)

    async def story(pair: Pair) -> None:
        await pair.own()
        await pair.follow()
        pair.clock.advance_ms(2000)
        pair.followed.start()
        await until(lambda: len(pair.followed) == 0)

    run_pair(tmp_path, story, bounded(FollowingConfig(idle_ms=2000)))


def test_what_is_opened_again_has_the_watches_that_it_had(tmp_path: Path) -> None:
    async def story(pair: Pair) -> None:
        log = await pair.own()
        await log.append(batch(2))
        first = await pair.follow()
        noted = pair.followed._logs[PARTITION]
        pair.clock.advance_ms(2000)
        await pair.followed._close_idle()
        await until(lambda: len(pair.followed) == 0)
        again = await pair.follow()
        assert again is not first
        assert again.log is first.log
        assert noted.begin() is None  # it is set, and has not fired
        await delete_records(log, 2)
        await until(lambda: again.log_start_offset == 2)

    run_pair(tmp_path, story, bounded(FollowingConfig(idle_ms=2000)))


def test_who_becomes_the_owner_follows_no_more(tmp_path: Path) -> None:
    async def story(pair: Pair) -> None:
        log = await pair.own()
        await log.append(batch(2))
        followed = await pair.follow()
        await reached(followed, log)
        waiter = FetchWaiter(1, asyncio.get_running_loop().create_future())
        followed.waiters.join(waiter)
        await pair.owners[0].close()
        pair.owned_by(ME)
        await waiter.future
        mine = await pair.partitions.open(PARTITION)
        assert followed.failure is E.NOT_LEADER_OR_FOLLOWER
        assert pair.followed.get(PARTITION) is None
        await mine.append(batch(2))
        assert mine.high_watermark == 4
        assert mine.log is not followed.log
        pair.owned_by(OWNER)  # and back again
        assert await pair.partitions.has_left(PARTITION)
        theirs = await pair.own()
        again = await pair.follow()
        await reached(again, theirs)
        assert pair.partitions.get(PARTITION) is None

    run_pair(tmp_path, story)


def test_an_opening_ends_when_the_broker_becomes_the_owner(tmp_path: Path) -> None:
    async def story(pair: Pair) -> None:
        log = await pair.own()
        await log.append(batch(2))
        for turns in range(12):
            pair.owned_by(OWNER)
            await pair.partitions.close_partition(PARTITION)
            await until(lambda: pair.partitions.get(PARTITION) is None)
            opening = pair.followed.opening(*PARTITION)
            for _ in range(turns):
                await asyncio.sleep(0)
            await pair.owners[0].close()
            pair.owned_by(ME)
            mine = await pair.partitions.open(PARTITION)
            assert mine.high_watermark == 2
            await opening
            await until(lambda: len(pair.followed) == 0)
            assert (await pair.namespace.open_log(mine.log.name)) is mine.log

    run_pair(tmp_path, story)


def test_a_topic_that_goes_is_followed_no_more(tmp_path: Path) -> None:
    async def story(pair: Pair) -> None:
        log = await pair.own()
        await log.append(batch(2))
        followed = await pair.follow()
        await pair.topics.delete("t")
        assert len(pair.followed) == 0
        assert followed.failure is E.NOT_LEADER_OR_FOLLOWER
        assert await pair.followed.opening(*PARTITION) is E.UNKNOWN_TOPIC_OR_PARTITION

    run_pair(tmp_path, story)
