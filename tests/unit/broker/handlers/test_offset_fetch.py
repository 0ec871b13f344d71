import asyncio
from dataclasses import replace
from typing import Any

import pytest

from tailrace.core.errors import BookieUnavailable
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.ids import TopicPartition
from tailrace.protocol.kafka.apis import OFFSET_FETCH
from tailrace.protocol.kafka.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from tailrace.protocol.kafka.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.unit.broker.coordinator.runtime_support import CALLER, CONFIG, Groups, running_groups
from tests.unit.broker.handlers.group_support import answer_of, ask, ask_soon, versions
from tests.unit.broker.loops import in_loop, turns

NONE = ErrorCode.NONE
UNKNOWN_ID = ErrorCode.UNKNOWN_TOPIC_ID
MISSING = b"no such topic..."
Wanted = dict[str, list[int]] | None


def fetching(
    groups: Groups, version: int, wanted: Wanted, group: str = "g", **fields: Any
) -> OffsetFetchRequest:
    if version < 8:
        topics = None
        if wanted is not None:
            topics = [
                OffsetFetchRequestTopic(name=n, partition_indexes=p) for n, p in wanted.items()
            ]
        return OffsetFetchRequest(group_id=group, topics=topics, **fields)
    many = None
    if wanted is not None:
        many = [
            OffsetFetchRequestTopics(name=n, topic_id=id_of(groups, n), partition_indexes=p)
            for n, p in wanted.items()
        ]
    return OffsetFetchRequest(
        groups=[OffsetFetchRequestGroup(group_id=group, topics=many)], **fields
    )


def id_of(groups: Groups, name: str) -> bytes:
    topic = groups.world.topics.get(name)
    return MISSING if topic is None else topic.topic_id


def name_of(groups: Groups, topic: Any) -> str:
    if topic.name:
        return str(topic.name)
    known = groups.world.topics.by_id(topic.topic_id)
    return "nowhere" if known is None else known.name


def found(
    groups: Groups, response: OffsetFetchResponse, version: int
) -> dict[tuple[str, int], tuple[Any, ...]]:
    topics: Any = response.topics if version < 8 else response.groups[0].topics
    return {
        (name_of(groups, topic), p.partition_index): (
            p.committed_offset,
            p.committed_leader_epoch,
            p.metadata,
            p.error_code,
        )
        for topic in topics
        for p in topic.partitions
    }


def group_code(response: OffsetFetchResponse, version: int) -> int:
    return response.error_code if version < 8 else response.groups[0].error_code


async def commit(groups: Groups) -> None:
    await groups.commit(7, partitions=[0, 1])


@pytest.mark.parametrize("version", versions(OFFSET_FETCH))
def test_what_was_committed_and_what_was_not(version: int) -> None:
    @in_loop
    async def body() -> None:
        async with running_groups() as groups:
            await commit(groups)
            request = fetching(groups, version, {"t": [1, 4], "nowhere": [0]})
            response = await ask(groups, OFFSET_FETCH, version, request)
            assert group_code(response, version) == NONE
            assert found(groups, response, version) == {
                ("t", 1): (7, -1, "", NONE),
                ("t", 4): (-1, -1, "", NONE),
                ("nowhere", 0): (-1, -1, "", NONE if version < 10 else UNKNOWN_ID),
            }

    body()


@pytest.mark.parametrize("version", versions(OFFSET_FETCH)[1:])
def test_all_that_was_committed(version: int) -> None:
    @in_loop
    async def body() -> None:
        async with running_groups() as groups:
            await commit(groups)
            response = await ask(groups, OFFSET_FETCH, version, fetching(groups, version, None))
            assert set(found(groups, response, version)) == {("t", 0), ("t", 1)}

    body()


@pytest.mark.parametrize("version", versions(OFFSET_FETCH))
def test_an_unknown_group_has_committed_nothing(version: int) -> None:
    @in_loop
    async def body() -> None:
        async with running_groups() as groups:
            await groups.prepare("nobody")
            request = fetching(groups, version, {"t": [0]}, "nobody")
            response = await ask(groups, OFFSET_FETCH, version, request)
            assert group_code(response, version) == NONE
            assert found(groups, response, version) == {("t", 0): (-1, -1, "", NONE)}

    body()


@pytest.mark.parametrize("version", versions(OFFSET_FETCH))
def test_a_refusal_stands_where_the_version_has_a_place_for_it(version: int) -> None:
    @in_loop
    async def body() -> None:
        async with running_groups(prepared=False) as groups:
            expected = ErrorCode.NOT_COORDINATOR
            response = await ask(
                groups, OFFSET_FETCH, version, fetching(groups, version, {"t": [0]})
            )
            if version == 1:
                assert found(groups, response, version) == {("t", 0): (-1, -1, "", expected)}
            else:
                assert group_code(response, version) == expected
                assert found(groups, response, version) == {}

    body()


@pytest.mark.parametrize("version", [8, 9, 10])
def test_many_groups_in_one_request(version: int) -> None:
    @in_loop
    async def body() -> None:
        async with running_groups() as groups:
            await commit(groups)
            await groups.prepare("h")
            await groups.commit(9, group="h")
            wanted = [
                OffsetFetchRequestGroup(
                    group_id="g",
                    topics=[
                        OffsetFetchRequestTopics(
                            name="t", topic_id=id_of(groups, "t"), partition_indexes=[0]
                        )
                    ],
                ),
                OffsetFetchRequestGroup(group_id="h", topics=None),
            ]
            response = await ask(groups, OFFSET_FETCH, version, OffsetFetchRequest(groups=wanted))
            offsets = [
                (g.group_id, g.topics[0].partitions[0].committed_offset) for g in response.groups
            ]
            assert offsets == [("g", 7), ("h", 9)]

    body()


@pytest.mark.parametrize("version", [7, 8, 9, 10])
@pytest.mark.parametrize("stable", [False, True])
def test_require_stable_waits_for_commits_under_way(version: int, stable: bool) -> None:
    @in_loop
    async def body() -> None:
        async with running_groups(auto=False) as groups:
            groups.commit(7)
            await turns()
            request = fetching(groups, version, {"t": [0]}, require_stable=stable)
            answer = ask_soon(groups, OFFSET_FETCH, version, request)
            if not stable:
                response = await answer_of(answer, OFFSET_FETCH, version)
                assert found(groups, response, version)["t", 0][0] == -1
                return
            async with asyncio.TaskGroup() as asking:
                task = asking.create_task(answer_of(answer, OFFSET_FETCH, version))
                await turns()
                assert not task.done()
                groups.writer.confirm()
            assert found(groups, task.result(), version)["t", 0][0] == 7

    body()


async def yes(_partition: TopicPartition) -> ErrorCode:
    return NONE


@pytest.mark.parametrize("version", [7, 8, 9, 10])
@pytest.mark.parametrize("committed", [True, False])
def test_require_stable_while_a_transaction_is_open(version: int, committed: bool) -> None:
    @in_loop
    async def body() -> None:
        async with running_groups() as groups:
            await commit(groups)
            coordinator = groups.coordinator
            assert not isinstance(
                await coordinator.commit_in_transaction(pending(9), CALLER, yes), ErrorCode
            )
            for restarted in (False, True):
                if restarted:
                    await groups.restart()
                    await groups.prepare("g")
                stable = fetching(groups, version, {"t": [0, 1]}, require_stable=True)
                response = await ask(groups, OFFSET_FETCH, version, stable)
                unstable = (-1, -1, "", ErrorCode.UNSTABLE_OFFSET_COMMIT)
                assert found(groups, response, version) == {
                    ("t", 0): unstable,
                    ("t", 1): (7, -1, "", NONE),
                }
                assert await groups.committed() == 7
            partition = groups.coordinator.partition_for_group("g")
            assert partition is not None
            ended = groups.coordinator.end_transaction(partition, 5, 0, 0, committed)
            assert await ended is NONE
            response = await ask(groups, OFFSET_FETCH, version, stable)
            expected = 9 if committed else 7
            assert found(groups, response, version)["t", 0] == (expected, -1, "", NONE)

    body()


def pending(offset: int) -> TxnOffsetCommitRequest:
    partition = TxnOffsetCommitRequestPartition(
        partition_index=0, committed_offset=offset, committed_metadata=""
    )
    topic = TxnOffsetCommitRequestTopic(name="t", partitions=[partition])
    return TxnOffsetCommitRequest(
        transactional_id="x", group_id="g", producer_id=5, producer_epoch=0, topics=[topic]
    )


@in_loop
async def test_require_stable_of_nobody_is_refused() -> None:
    async with running_groups(prepared=False) as groups:
        request = fetching(groups, 7, {"t": [0]}, require_stable=True)
        response = await ask(groups, OFFSET_FETCH, 7, request)
        assert response.error_code == ErrorCode.NOT_COORDINATOR


@pytest.mark.parametrize("how", ["slow", "failed"])
def test_require_stable_that_cannot_be_sure_sends_clients_to_another_coordinator(how: str) -> None:
    @in_loop
    async def body() -> None:
        config = replace(CONFIG, offsets_commit_timeout_ms=1 if how == "slow" else 60_000)
        async with running_groups(auto=False, config=config) as groups:
            groups.commit(7)
            await turns()
            request = fetching(groups, 8, {"t": [0]}, require_stable=True)
            asking = asyncio.ensure_future(ask(groups, OFFSET_FETCH, 8, request))
            await turns()
            if how == "failed":
                groups.writer.fail(BookieUnavailable("b1"))
            assert group_code(await asking, 8) == ErrorCode.NOT_COORDINATOR

    body()
