import dataclasses
from collections.abc import Sequence

import pytest

from tailrace.broker.coordinator.reading import WantedOffsets
from tailrace.broker.handlers import Deferred
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.kafka.apis import OFFSET_COMMIT
from tailrace.protocol.kafka.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from tests.unit.broker.coordinator.runtime_support import Groups, running_groups
from tests.unit.broker.handlers.group_support import answer_of, ask, ask_soon, versions
from tests.unit.broker.loops import in_loop, turns

NONE = ErrorCode.NONE
UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def committing(
    groups: Groups, generation: int = -1, topics: Sequence[str] = ("t",)
) -> OffsetCommitRequest:
    """Commit for partitions 0 and 9 of each topic; only `t` is there, with five partitions."""
    partitions = [
        OffsetCommitRequestPartition(
            partition_index=p,
            committed_offset=40 + p,
            committed_leader_epoch=3,
            committed_metadata="note",
        )
        for p in (0, 9)
    ]
    return OffsetCommitRequest(
        group_id="g",
        generation_id_or_member_epoch=generation,
        topics=[
            OffsetCommitRequestTopic(name=name, topic_id=id_of(groups, name), partitions=partitions)
            for name in topics
        ],
    )


def id_of(groups: Groups, name: str) -> bytes:
    topic = groups.world.topics.get(name)
    return b"no such topic..." if topic is None else topic.topic_id


def codes(response: OffsetCommitResponse) -> list[tuple[str | bytes, list[tuple[int, int]]]]:
    """Return each topic by the name that the version has, with its partitions' codes."""
    return [
        (t.name or t.topic_id, [(p.partition_index, p.error_code) for p in t.partitions])
        for t in response.topics
    ]


@pytest.mark.parametrize("version", versions(OFFSET_COMMIT))
def test_a_commit_is_answered_when_it_is_stored(version: int) -> None:
    @in_loop
    async def body() -> None:
        async with running_groups() as groups:
            answer = ask_soon(groups, OFFSET_COMMIT, version, committing(groups))
            assert isinstance(answer, Deferred)
            response = await answer_of(answer, OFFSET_COMMIT, version)
            name = "t" if version < 10 else id_of(groups, "t")
            assert codes(response) == [(name, [(0, NONE), (9, UNKNOWN)])]
            wanted = WantedOffsets("g", [("t", [0])])
            ((_, (stored,)),) = (await groups.coordinator.find_offsets(wanted)).topics
            assert stored.committed.offset == 40
            assert stored.committed.metadata == "note"
            assert stored.committed.leader_epoch == (3 if version >= 6 else -1)

    body()


@pytest.mark.parametrize("version", versions(OFFSET_COMMIT))
def test_topics_without_partitions_take_nothing_from_the_others(version: int) -> None:
    @in_loop
    async def body() -> None:
        async with running_groups() as groups:
            groups.world.topics.add("u")
            request = committing(groups, topics=("u", "t", "nowhere"))
            request.topics = [
                each if each.name == "t" else dataclasses.replace(each, partitions=[])
                for each in request.topics
            ]
            answers = dict(codes(await ask(groups, OFFSET_COMMIT, version, request)))
            name = "t" if version < 10 else id_of(groups, "t")
            assert answers.pop(name) == [(0, NONE), (9, UNKNOWN)]
            assert not any(answers.values())
            request.topics = [each for each in request.topics if each.name != "t"]
            alone = codes(await ask(groups, OFFSET_COMMIT, version, request))
            assert not any(partitions for _, partitions in alone)

    body()


@pytest.mark.parametrize("version", versions(OFFSET_COMMIT))
def test_a_refusal_stands_at_every_partition_that_is_there(version: int) -> None:
    @in_loop
    async def body() -> None:
        async with running_groups() as groups:
            request = committing(groups, generation=1)
            response = await ask(groups, OFFSET_COMMIT, version, request)
            expected = ErrorCode.ILLEGAL_GENERATION
            if version >= 9:
                expected = ErrorCode.GROUP_ID_NOT_FOUND
            name = "t" if version < 10 else id_of(groups, "t")
            assert codes(response) == [(name, [(0, expected), (9, UNKNOWN)])]
            await groups.coordinator.close()
            response = await ask(groups, OFFSET_COMMIT, version, committing(groups))
            assert codes(response) == [(name, [(0, ErrorCode.NOT_COORDINATOR), (9, UNKNOWN)])]

    body()


@pytest.mark.parametrize(("version", "code"), [(9, UNKNOWN), (10, ErrorCode.UNKNOWN_TOPIC_ID)])
def test_a_topic_that_is_not_there_is_refused_by_itself(version: int, code: ErrorCode) -> None:
    @in_loop
    async def body() -> None:
        async with running_groups() as groups:
            request = committing(groups, topics=["t", "nowhere"])
            answer = codes(await ask(groups, OFFSET_COMMIT, version, request))
            names = ("t", "nowhere")
            at, missing = names if version < 10 else [id_of(groups, name) for name in names]
            assert dict(answer) == {at: [(0, NONE), (9, UNKNOWN)], missing: [(0, code), (9, code)]}

    body()


@pytest.mark.parametrize("version", [9, 10])
def test_a_group_is_not_made_for_what_is_not_there(version: int) -> None:
    @in_loop
    async def body() -> None:
        async with running_groups() as groups:
            await ask(groups, OFFSET_COMMIT, version, committing(groups, topics=["nowhere"]))
            assert groups.coordinator.describe("g", 6).error_code == ErrorCode.GROUP_ID_NOT_FOUND

    body()


@in_loop
async def test_a_commit_that_takes_too_long_may_be_asked_again() -> None:
    async with running_groups(auto=False) as groups:
        answer = ask_soon(groups, OFFSET_COMMIT, 9, committing(groups))
        assert isinstance(answer, Deferred)
        assert answer.timeout_s == 5
        late = ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert codes(answer.build()) == [("t", [(0, late), (9, UNKNOWN)])]
        await turns()
        groups.writer.confirm()
        await turns()
        assert await groups.committed() == 40
