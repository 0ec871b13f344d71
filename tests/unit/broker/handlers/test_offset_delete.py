from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.kafka.apis import OFFSET_DELETE
from tailrace.protocol.kafka.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from tests.unit.broker.coordinator.runtime_support import Groups, running_groups
from tests.unit.broker.handlers.group_support import ask
from tests.unit.broker.loops import in_loop


async def delete(groups: Groups, group_id: str, *partitions: int) -> tuple[int, dict[int, int]]:
    """Return the code on top, and those of the partitions of topic t."""
    topic = OffsetDeleteRequestTopic(
        name="t",
        partitions=[OffsetDeleteRequestPartition(partition_index=p) for p in partitions],
    )
    request = OffsetDeleteRequest(group_id=group_id, topics=[topic])
    response = await ask(groups, OFFSET_DELETE, 0, request)
    codes = {p.partition_index: p.error_code for t in response.topics for p in t.partitions}
    return response.error_code, codes


@in_loop
async def test_delete() -> None:
    async with running_groups() as groups:
        for group_id in ("simple", "nobody"):
            await groups.prepare(group_id)
        await groups.commit(1, group="simple", partitions=(0, 1))
        assert await delete(groups, "simple", 0, 9) == (0, {0: 0, 9: 3})
        await groups.restart()
        await groups.prepare("simple")
        assert await groups.committed(0, "simple") is None
        assert await groups.committed(1, "simple") == 1


@in_loop
async def test_what_concerns_the_group_stands_on_top() -> None:
    async with running_groups() as groups:
        for group_id in ("simple", "nobody"):
            await groups.prepare(group_id)
        assert await delete(groups, "", 0) == (ErrorCode.INVALID_GROUP_ID, {})
        assert await delete(groups, "nobody", 0) == (ErrorCode.GROUP_ID_NOT_FOUND, {})
