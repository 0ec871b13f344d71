"""Requests through a real connection, with faults in their way."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tailrace.faults.interception import Interception
from tailrace.faults.orders import DelayAnswers, DropNext, FailNext
from tailrace.faults.table import FaultTable
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.kafka.apis import API_VERSIONS, FETCH, LIST_OFFSETS, METADATA, PRODUCE
from tailrace.protocol.kafka.messages.api_versions import ApiVersionsRequest
from tailrace.protocol.kafka.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
)
from tailrace.protocol.kafka.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from tailrace.protocol.kafka.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.unit.broker.loops import in_loop, turns, until
from tests.unit.broker.test_connection import V, codes, produce_of
from tests.unit.broker.wire import Served, WireClient

LEADER = ErrorCode.NOT_LEADER_OR_FOLLOWER


class Faulty:
    """A served broker with faults, and topic t of two partitions."""

    def __init__(self, served: Served, client: WireClient) -> None:
        self.served = served
        self.client = client
        self.table = FaultTable()
        self.interception = Interception(self.table)
        served.world.broker.faults = self.interception

    def end_of(self, partition: int) -> int:
        log = self.served.world.broker.partitions.get(("t", partition))
        assert log is not None
        return log.log_end_offset


@asynccontextmanager
async def faulty() -> AsyncIterator[Faulty]:
    async with Served() as served:
        served.world.topics.add("t", 2)
        for partition in (0, 1):
            await served.world.open("t", partition)
        yield Faulty(served, await served.client())


def fetch_of(
    *partitions: int, session: tuple[int, int] = (0, -1), offset: int = 0, max_wait_ms: int = 10_000
) -> FetchRequest:
    asked = [
        FetchPartition(partition=each, fetch_offset=offset, partition_max_bytes=1 << 20)
        for each in partitions
    ]
    return FetchRequest(
        session_id=session[0],
        session_epoch=session[1],
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=1 << 20,
        topics=[FetchTopic(topic="t", partitions=asked)] if asked else (),
    )


def seen(response: FetchResponse) -> dict[int, tuple[int, bool]]:
    """Return error and whether there were records, by partition."""
    return {
        each.partition_index: (each.error_code, bool(each.records))
        for topic in response.responses
        for each in topic.partitions
    }


@in_loop
async def test_who_sets_nothing_is_answered_by_the_handler_itself() -> None:
    async with faulty() as at:
        at.table.add(DropNext("Fetch"))
        assert codes(await at.client.ask(PRODUCE, V, produce_of(0))) == [(0, 0)]
        assert [each.hits for each in at.table] == [0]


@in_loop
async def test_dropped_before_and_after_it_took_effect() -> None:
    async with faulty() as at:
        at.table.add(DropNext("Produce", when="before"))
        at.table.add(DropNext("Produce", when="after"))
        for effect in (0, 1):
            client = await at.served.client()
            client.send(PRODUCE, V, produce_of(0))
            assert await client.is_closed()
            await until(lambda effect=effect: at.end_of(0) == effect)
        assert codes(await at.client.ask(PRODUCE, V, produce_of(0))) == [(0, 1)]
        at.table.add(DropNext("ListOffsets"))  # a handler that is no Deferred
        at.client.send(LIST_OFFSETS, 1, ListOffsetsRequest())
        assert await at.client.is_closed()


@in_loop
async def test_one_partition_fails_and_the_others_are_appended() -> None:
    async with faulty() as at:
        at.table.add(FailNext("Produce", LEADER.name, topic="t", partition=1))
        assert codes(await at.client.ask(PRODUCE, V, produce_of(0))) == [(0, 0)]
        found = codes(await at.client.ask(PRODUCE, V, produce_of(0, 1)))
        assert sorted(found) == [(0, 1), (LEADER, -1)]
        assert (at.end_of(0), at.end_of(1)) == (2, 0)
        assert sorted(codes(await at.client.ask(PRODUCE, V, produce_of(0, 1)))) == [(0, 0), (0, 2)]


@in_loop
async def test_all_of_a_request_fails_at_all_its_partitions() -> None:
    async with faulty() as at:
        at.table.add(FailNext("Produce", LEADER.name, count=2))
        at.table.add(FailNext("Produce", "MESSAGE_TOO_LARGE", partition=0))
        for _ in range(2):
            found = codes(await at.client.ask(PRODUCE, V, produce_of(0, 1)))
            assert found == [(LEADER, -1)] * 2
        assert [each.hits for each in at.table] == [2, 0], "nothing was left for the second"
        found = codes(await at.client.ask(PRODUCE, V, produce_of(0, 1)))
        assert sorted(found) == [(0, 0), (ErrorCode.MESSAGE_TOO_LARGE, -1)]
        assert (at.end_of(0), at.end_of(1)) == (0, 1)


@in_loop
async def test_two_faults_of_one_request() -> None:
    async with faulty() as at:
        at.table.add(FailNext("Produce", LEADER.name, partition=0))
        at.table.add(FailNext("Produce", "MESSAGE_TOO_LARGE", partition=1))
        found = codes(await at.client.ask(PRODUCE, V, produce_of(0, 1)))
        assert sorted(found) == [(LEADER, -1), (ErrorCode.MESSAGE_TOO_LARGE, -1)]


@in_loop
async def test_a_produce_without_acks_that_fails_ends_its_connection() -> None:
    async with faulty() as at:
        at.table.add(FailNext("Produce", LEADER.name, partition=1))
        at.client.send(PRODUCE, V, produce_of(0, 1, acks=0))
        assert await at.client.is_closed()
        await until(lambda: at.end_of(0) == 1)
        assert at.end_of(1) == 0


@in_loop
async def test_a_late_answer_is_late_though_it_took_effect_and_others_wait_behind_it() -> None:
    async with faulty() as at:
        delay = at.table.add(DelayAnswers("Produce", 600_000))
        at.client.send(PRODUCE, V, produce_of(0))
        at.client.send(METADATA, 1, MetadataRequest(topics=()))
        await until(lambda: at.end_of(0) == 1)
        await turns(20)
        answer = asyncio.ensure_future(at.client.receive_frame())
        await turns(20)
        assert not answer.done()
        at.table.undo(lambda _: True)
        at.interception.release(delay.id)
        await answer
        await at.client.receive(METADATA, 1)
        assert delay.hits == 1
        at.table.add(DelayAnswers("ListOffsets", 1))  # a handler that is no Deferred
        await at.client.ask(LIST_OFFSETS, 1, ListOffsetsRequest())


@in_loop
async def test_a_late_answer_whose_client_is_gone_is_forgotten() -> None:
    async with faulty() as at:
        delay = at.table.add(DelayAnswers("Produce", 600_000))
        at.client.send(PRODUCE, V, produce_of(0))
        await until(lambda: delay.hits == 1)
        at.client.close()
        await turns(20)
        at.table.undo(lambda _: True)
        at.interception.release(delay.id)
        assert codes(await (await at.served.client()).ask(PRODUCE, V, produce_of(1)))


@in_loop
async def test_a_fault_that_is_undone_leaves_what_another_holds_back() -> None:
    async with faulty() as at:
        held = at.table.add(DelayAnswers("Produce", 600_000))
        other = at.table.add(DelayAnswers("Metadata", 600_000))
        at.client.send(PRODUCE, V, produce_of(0))
        another = await at.served.client()
        another.send(METADATA, 1, MetadataRequest(topics=[]))
        await until(lambda: held.hits == other.hits == 1)
        await until(lambda: at.end_of(0) == 1)
        await turns(20)
        answer = asyncio.ensure_future(at.client.receive_frame())
        at.interception.release(other.id)
        await another.receive(METADATA, 1)
        await turns(50)
        assert not answer.done()
        at.interception.release(held.id)
        await answer


@in_loop
async def test_a_deadline_counts_from_the_end_of_a_delay() -> None:
    async with faulty() as at:
        delay = at.table.add(DelayAnswers("Produce", 200))
        at.client.send(PRODUCE, V, produce_of(0, timeout_ms=1))
        assert codes((await at.client.receive(PRODUCE, V))[1]) == [(0, 0)]
        assert delay.hits == 1


@in_loop
async def test_a_fetch_of_a_session_fails_for_a_partition_that_it_does_not_name() -> None:
    async with faulty() as at:
        for partition in (0, 1):
            await at.client.ask(PRODUCE, V, produce_of(partition))
        first = await at.client.ask(FETCH, 11, fetch_of(0, 1, session=(0, 0)))
        assert seen(first) == {0: (0, True), 1: (0, True)}
        fault = at.table.add(FailNext("Fetch", LEADER.name, topic="t", partition=1))
        at.client.send(FETCH, 11, fetch_of(session=(first.session_id, 1)))
        response = (await at.client.receive(FETCH, 11))[1]
        assert seen(response) == {0: (0, True), 1: (LEADER, False)}
        assert response.session_id == 0, "the client begins another"
        assert at.served.world.broker.fetch_sessions.get(first.session_id) is None
        assert fault.hits == 1
        again = await at.client.ask(FETCH, 11, fetch_of(0, 1, session=(0, 0)))
        assert seen(again) == {0: (0, True), 1: (0, True)}
        assert again.session_id


@in_loop
async def test_a_fetch_of_a_session_fails_for_no_partition_that_it_forgets() -> None:
    async with faulty() as at:
        first = await at.client.ask(FETCH, 11, fetch_of(0, 1, session=(0, 0), max_wait_ms=0))
        fault = at.table.add(FailNext("Fetch", LEADER.name, topic="t", partition=1))
        forgets = fetch_of(session=(first.session_id, 1), max_wait_ms=0)
        forgets.forgotten_topics_data = [ForgottenTopic(topic="t", partitions=[1])]
        second = await at.client.ask(FETCH, 11, forgets)
        assert (second.session_id, seen(second), fault.hits) == (first.session_id, {}, 0)


@in_loop
async def test_a_session_that_no_fault_is_for_goes_on() -> None:
    async with faulty() as at:
        await at.client.ask(PRODUCE, V, produce_of(0))
        first = await at.client.ask(FETCH, 11, fetch_of(0, session=(0, 0)))
        fault = at.table.add(FailNext("Fetch", LEADER.name, topic="t", partition=1))
        await at.client.ask(PRODUCE, V, produce_of(0))
        second = await at.client.ask(FETCH, 11, fetch_of(session=(first.session_id, 1)))
        assert second.session_id == first.session_id
        assert fault.hits == 0
        forgotten = fetch_of(session=(first.session_id, 3))
        lost = (await at.client.ask(FETCH, 11, forgotten)).error_code
        assert lost == ErrorCode.INVALID_FETCH_SESSION_EPOCH


@in_loop
async def test_metadata_says_the_error_and_makes_no_topic() -> None:
    async with faulty() as at:
        at.table.add(FailNext("Metadata", "LEADER_NOT_AVAILABLE", topic="new"))
        at.table.add(FailNext("Metadata", "LEADER_NOT_AVAILABLE", topic="t", partition=1))
        asked = [MetadataRequestTopic(name=name) for name in ("t", "new")]
        got = await at.client.ask(METADATA, 5, MetadataRequest(topics=asked))
        assert got.brokers
        t, new = got.topics
        assert new.error_code == ErrorCode.LEADER_NOT_AVAILABLE
        assert (t.error_code, [p.error_code for p in t.partitions]) == (0, [0, 5])
        assert at.served.world.topics.get("new") is None
        assert [each.hits for each in at.table] == [1, 1]
        everything: Any = await at.client.ask(METADATA, 5, MetadataRequest(topics=None))
        assert [p.error_code for p in everything.topics[0].partitions] == [0, 0]


@in_loop
async def test_a_metadata_request_without_topics_uses_up_no_fault() -> None:
    async with faulty() as at:
        fault = at.table.add(FailNext("Metadata", "LEADER_NOT_AVAILABLE"))
        of_topic = at.table.add(FailNext("Metadata", "TOPIC_AUTHORIZATION_FAILED", topic="t"))
        nothing = MetadataRequest(topics=[])
        assert not (await at.client.ask(METADATA, 5, nothing)).topics
        assert (fault.hits, of_topic.hits) == (0, 0)
        at.table.undo(lambda each: each is of_topic)
        (t,) = (await at.client.ask(METADATA, 0, nothing)).topics  # in v0 it asks for all
        assert (t.name, t.error_code) == ("t", ErrorCode.LEADER_NOT_AVAILABLE)
        of_topic = at.table.add(FailNext("Metadata", "TOPIC_AUTHORIZATION_FAILED", topic="t"))
        (t,) = (await at.client.ask(METADATA, 0, nothing)).topics
        assert t.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        assert (fault.hits, of_topic.hits) == (1, 1)


@in_loop
async def test_an_unsupported_version_of_api_versions_is_said_in_the_first_one() -> None:
    async with faulty() as at:
        at.table.add(FailNext("ApiVersions", "UNSUPPORTED_VERSION"))
        at.table.add(FailNext("ApiVersions", "INVALID_REQUEST"))
        hello = ApiVersionsRequest(client_software_name="c", client_software_version="1")
        at.client.send(API_VERSIONS, 3, hello)
        response = (await at.client.receive(API_VERSIONS, 0))[1]
        assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
        for code in (ErrorCode.INVALID_REQUEST, ErrorCode.NONE):
            assert (await at.client.ask(API_VERSIONS, 3, hello)).error_code == code


@in_loop
async def test_other_apis_fail_where_they_say_errors() -> None:
    async with faulty() as at:
        at.table.add(FailNext("ListOffsets", LEADER.name, partition=0))
        partitions = [ListOffsetsPartition(partition_index=n, timestamp=-1) for n in (0, 1)]
        request = ListOffsetsRequest(topics=[ListOffsetsTopic(name="t", partitions=partitions)])
        (topic,) = (await at.client.ask(LIST_OFFSETS, 1, request)).topics
        found = {p.partition_index: (p.error_code, p.offset) for p in topic.partitions}
        assert found == {0: (LEADER, -1), 1: (0, 0)}
