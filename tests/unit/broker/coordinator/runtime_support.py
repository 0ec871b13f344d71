"""A GroupCoordinator over real partitions on logs in memory, with a clock that stands still."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from random import Random
from typing import Any

from tailrace.broker.coordinator.config import GroupConfig
from tailrace.broker.coordinator.effects import Caller
from tailrace.broker.coordinator.partitioning import OFFSETS_TOPIC, partition_for_group
from tailrace.broker.coordinator.reading import WantedOffsets
from tailrace.broker.coordinator.runtime import GroupCoordinator, GroupParts
from tailrace.core.runtime.clock import ManualClock
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.kafka.messages.heartbeat import HeartbeatRequest
from tailrace.protocol.kafka.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from tailrace.protocol.kafka.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tailrace.protocol.kafka.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.unit.broker.fakes import FakeLog, FakeWriter, World, make_world, restarted
from tests.unit.broker.loops import turns
from tests.unit.broker.peers.support import FakeRoutes

PARTITIONS = 3
GROUP = "g"
CONFIG = GroupConfig(initial_rebalance_delay_ms=0, offsets_topic_partitions=PARTITIONS)
CALLER = Caller("c", "/h", 5)


class Groups:
    """One coordinator and what it stands on."""

    def __init__(self, world: World, config: GroupConfig = CONFIG) -> None:
        self.world = world
        self.config = config
        self.routes = FakeRoutes()
        self.coordinator = self.make()

    @property
    def clock(self) -> ManualClock:
        return self.world.clock

    @property
    def log(self) -> FakeLog:
        """The stream of the partition that the group lives in."""
        return self.world.log(OFFSETS_TOPIC, partition_for_group(GROUP, PARTITIONS))

    @property
    def writer(self) -> FakeWriter:
        assert self.log.writer is not None
        return self.log.writer

    def make(self) -> GroupCoordinator:
        topics: Any = self.world.topics
        logs: Any = self.world.broker.partitions
        bookies = self.world.broker.bookies
        parts = GroupParts(topics, logs, bookies, self.clock, Random(1), self.routes)
        coordinator = GroupCoordinator(self.config, parts)
        self.world.broker.groups = coordinator
        return coordinator

    async def restart(self) -> None:
        """Stop the coordinator without a word and start another over the same streams."""
        await self.coordinator.close()
        self.world = await restarted(self.world)
        self.coordinator = self.make()
        await self.coordinator.start()

    async def prepare(self, group_id: str) -> ErrorCode:
        """Have a group served, as whoever looks for its coordinator does."""
        found = await self.coordinator.find(group_id)
        return found if isinstance(found, ErrorCode) else ErrorCode.NONE

    def join(self, member_id: str = "", *, version: int = 3, group: str = GROUP) -> Any:
        request = JoinGroupRequest(
            group_id=group,
            session_timeout_ms=10_000,
            rebalance_timeout_ms=60_000,
            member_id=member_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
        )
        return self.coordinator.join(request, CALLER._replace(version=version))

    def sync(self, joined: JoinGroupResponse, assignment: bytes = b"mine") -> Any:
        given = [
            SyncGroupRequestAssignment(member_id=m.member_id, assignment=assignment)
            for m in joined.members
        ]
        return self.coordinator.sync(
            SyncGroupRequest(
                group_id=GROUP,
                generation_id=joined.generation_id,
                member_id=joined.member_id,
                assignments=given,
            )
        )

    def heartbeat(self, joined: JoinGroupResponse) -> ErrorCode:
        request = HeartbeatRequest(
            group_id=GROUP, generation_id=joined.generation_id, member_id=joined.member_id
        )
        result = self.coordinator.heartbeat(request).result()
        return ErrorCode(getattr(result, "error_code", result))

    def commit(self, offset: int, *, group: str = GROUP, partitions: Sequence[int] = (0,)) -> Any:
        topic = OffsetCommitRequestTopic(
            name="t",
            partitions=[
                OffsetCommitRequestPartition(partition_index=p, committed_offset=offset)
                for p in partitions
            ],
        )
        request = OffsetCommitRequest(group_id=group, topics=[topic])
        return self.coordinator.commit(request, CALLER)

    async def committed(self, partition: int = 0, group: str = GROUP) -> int | ErrorCode | None:
        wanted = WantedOffsets(group, [("t", [partition])])
        found = await self.coordinator.find_offsets(wanted)
        if found.code is not ErrorCode.NONE:
            return found.code
        ((_, (each,)),) = found.topics
        return None if each.committed.offset < 0 else each.committed.offset

    async def stable(self) -> JoinGroupResponse:
        """Bring the group to Stable with one member."""
        joining = self.join()
        self.coordinator.fire_due()
        joined: JoinGroupResponse = await joining
        syncing = self.sync(joined)
        await turns()
        if not self.world.namespace.auto:
            self.writer.confirm()
        assert (await syncing).error_code == ErrorCode.NONE
        return joined


@asynccontextmanager
async def running_groups(
    *, auto: bool = True, config: GroupConfig = CONFIG, prepared: bool = True
) -> AsyncIterator[Groups]:
    """Yield a coordinator that serves the group; every task has ended afterwards."""
    groups = Groups(make_world(auto=auto), config)
    groups.world.topics.add("t", 5)
    await groups.coordinator.start()
    if prepared:
        assert await groups.prepare(GROUP) is ErrorCode.NONE
    try:
        yield groups
    finally:
        await groups.coordinator.close()
        await groups.world.broker.partitions.close()
        assert len(asyncio.all_tasks()) == 1
