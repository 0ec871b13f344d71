import pytest

from broker.handlers import Deferred
from protocol.errors import ErrorCode
from protocol.kafka.apis import OFFSET_COMMIT
from protocol.kafka.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.unit.broker.coordinator.runtime_support import running_groups
from tests.unit.broker.handlers.group_support import answer_of, ask, ask_soon, versions
from tests.unit.broker.loops import in_loop


def committing(generation: int = -1) -> OffsetCommitRequest:
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
        topics=[OffsetCommitRequestTopic(name="t", partitions=partitions)],
    )


@pytest.mark.parametrize("version", versions(OFFSET_COMMIT))
def test_a_commit_is_answered_when_it_is_stored(version: int) -> None:
    @in_loop
    async def body() -> None:
        async with running_groups() as groups:
            answer = ask_soon(groups, OFFSET_COMMIT, version, committing())
            assert isinstance(answer, Deferred)
            response = await answer_of(answer, OFFSET_COMMIT, version)
            (topic,) = response.topics
            codes = [(p.partition_index, p.error_code) for p in topic.partitions]
            assert codes == [(0, ErrorCode.NONE), (9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]
            stored = groups.coordinator.offsets("g")
            assert not isinstance(stored, ErrorCode)
            assert stored["t"][0].offset == 40
            assert stored["t"][0].metadata == "note"
            assert stored["t"][0].leader_epoch == (3 if version >= 6 else -1)

    body()


@pytest.mark.parametrize("version", versions(OFFSET_COMMIT))
def test_a_refusal_stands_at_every_partition(version: int) -> None:
    @in_loop
    async def body() -> None:
        async with running_groups() as groups:
            response = await ask(groups, OFFSET_COMMIT, version, committing(generation=1))
            expected = ErrorCode.ILLEGAL_GENERATION
            if version >= 9:
                expected = ErrorCode.GROUP_ID_NOT_FOUND
            assert [p.error_code for t in response.topics for p in t.partitions] == [expected] * 2
            await groups.coordinator.close()
            response = await ask(groups, OFFSET_COMMIT, version, committing())
            codes = {p.error_code for t in response.topics for p in t.partitions}
            assert codes == {ErrorCode.NOT_COORDINATOR}

    body()
