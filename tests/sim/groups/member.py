"""A consumer as a client library makes it: joins, shares out, reads, commits, and starts over.

What it "reads" is its position, which only rises; so what it commits does, too.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from enum import Enum
from functools import partial
from random import Random
from typing import Any

from tailrace.broker.coordinator.effects import Caller
from tailrace.broker.coordinator.reading import FoundOffsets, WantedOffsets
from tailrace.broker.coordinator.runtime import GroupCoordinator
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.kafka.messages.heartbeat import HeartbeatRequest
from tailrace.protocol.kafka.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from tailrace.protocol.kafka.messages.join_group import JoinGroupResponse as Joined
from tailrace.protocol.kafka.messages.leave_group import MemberIdentity
from tailrace.protocol.kafka.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tailrace.protocol.kafka.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tailrace.protocol.kafka.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.sim.groups.world import GROUP, PARTITIONS, TOPIC, GroupWorld, Lost

HEARTBEAT_S = 1.0
SUBSCRIPTION = b"\0\0" + (1).to_bytes(4, "big") + b"\0\1t" + b"\xff\xff\xff\xff"


class Turn(Enum):
    """What an answer tells a member to do."""

    GO_ON = "go on"
    AGAIN = "join again"
    ANEW = "join as somebody new"
    END = "end"


_TURNS = {
    ErrorCode.NONE: Turn.GO_ON,
    ErrorCode.UNKNOWN_MEMBER_ID: Turn.ANEW,
    ErrorCode.FENCED_INSTANCE_ID: Turn.END,
}


class Member:
    """One consumer, in one task."""

    def __init__(self, world: GroupWorld, name: str, instance_id: str | None) -> None:
        self.world = world
        self.name = name
        self.instance_id = instance_id
        self.pause_s = 0.0
        """How long it does not do anything, once; set by the nemesis."""
        self.leaving = False
        self.owned: list[int] = []
        self.generation = -1
        self._member_id = ""
        self._positions: dict[int, int] = {}
        self._rng = Random(f"{world.seed}/{name}")
        self._caller = Caller(name, "/host", 5)
        self._commits_in_transactions = self._rng.random() < 0.4

    @property
    def owner(self) -> str:
        """By what the checker knows it: the next process of a static member is the same owner."""
        return self.instance_id or self._member_id

    async def run(self) -> None:
        """Live until it leaves, is fenced, or is cancelled: a process that dies."""
        while True:
            try:
                turn = await self._live()
            except Lost:
                turn = Turn.AGAIN
            if turn is Turn.ANEW:
                self._member_id = ""
            if turn is Turn.END:
                return
            await asyncio.sleep(self._rng.uniform(0.01, 0.3))

    async def _live(self) -> Turn:
        """Live through one generation."""
        self.owned, self.generation = [], -1
        joined = await self._join()
        if isinstance(joined, Turn):
            return joined
        if (turn := await self._sync(joined)) is not Turn.GO_ON:
            return turn
        await self._find_positions()
        while (turn := await self._work()) is Turn.GO_ON:
            pass
        return turn

    async def _work(self) -> Turn:
        await asyncio.sleep(self._rng.uniform(0.1, HEARTBEAT_S))
        if self.pause_s:
            pause_s, self.pause_s = self.pause_s, 0.0
            await asyncio.sleep(pause_s)
        if self.leaving:
            await self._leave()
            return Turn.END
        if self._rng.random() < 0.6 and (turn := await self._commit()) is not Turn.GO_ON:
            return turn
        turn = await self._heartbeat()
        if turn is Turn.AGAIN and self._rng.random() < 0.7:
            await self._commit()  # the last chance before partitions move
        return turn

    async def _join(self) -> Joined | Turn:
        request = JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=self.world.session_ms,
            rebalance_timeout_ms=self.world.rebalance_ms,
            member_id=self._member_id,
            group_instance_id=self.instance_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=SUBSCRIPTION)],
        )
        answer = await self.world.ask(lambda groups: groups.join(request, self._caller))
        if isinstance(answer, ErrorCode):
            return Turn.AGAIN
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self._member_id = answer.member_id
            return Turn.AGAIN
        turn = _turn(answer)
        if turn is not Turn.GO_ON:
            return turn
        self._member_id = answer.member_id
        found: Joined = answer
        return found

    async def _sync(self, joined: Joined) -> Turn:
        me, generation = self._member_id, joined.generation_id
        assignments = _share_out([m.member_id for m in joined.members]) if joined.members else {}
        request = SyncGroupRequest(
            group_id=GROUP,
            generation_id=generation,
            member_id=me,
            group_instance_id=self.instance_id,
            assignments=[
                SyncGroupRequestAssignment(member_id=m, assignment=json.dumps(p).encode())
                for m, p in assignments.items()
            ],
        )

        def hear(answer: Any) -> None:
            if _turn(answer) is Turn.GO_ON and answer.assignment:
                owned = json.loads(bytes(answer.assignment))
                self.world.checker.on_assigned(generation, self.owner, owned)

        answer = await self.world.ask(lambda groups: groups.sync(request), hear)
        if (turn := _turn(answer)) is Turn.GO_ON:
            self.owned = json.loads(bytes(answer.assignment) or b"[]")
            self.generation = generation
            self.world.trace(self.name, "assigned", (generation, self.owned))
        return turn

    async def _find_positions(self) -> None:
        checker = self.world.checker
        waiting = set(self.owned)
        while waiting:
            known = {partition: checker.known(partition) for partition in waiting}
            wanted = WantedOffsets(GROUP, [(TOPIC, sorted(waiting))], is_stable=True)

            def hear(found: FoundOffsets, known: dict[int, int] = known) -> None:
                for partition, offset in _stable(found):
                    checker.on_told(self.name, partition, offset, known[partition])

            found = await self.world.ask(_asking_for(wanted), hear)
            for partition, offset in _stable(found):
                self._positions[partition] = offset
                waiting.discard(partition)
            if waiting:
                await asyncio.sleep(self._rng.uniform(0.05, 0.2))

    async def _heartbeat(self) -> Turn:
        request = HeartbeatRequest(
            group_id=GROUP,
            generation_id=self.generation,
            member_id=self._member_id,
            group_instance_id=self.instance_id,
        )
        answer = await self.world.ask(lambda groups: groups.heartbeat(request))
        return Turn.GO_ON if answer is ErrorCode.NONE else _turn(answer)

    async def _leave(self) -> None:
        identity = MemberIdentity(member_id=self._member_id, group_instance_id=self.instance_id)
        self.world.trace(self.name, "leaves")
        await self.world.ask(lambda groups: groups.leave(GROUP, [identity]))

    # Commits

    async def _commit(self) -> Turn:
        if not self.owned:
            return Turn.GO_ON
        offsets = {p: self._positions[p] + self._rng.randint(1, 5) for p in self.owned}
        self._positions.update(offsets)
        if self._commits_in_transactions:
            return await self._commit_in_transaction(offsets)
        partitions = [
            OffsetCommitRequestPartition(
                partition_index=p, committed_offset=o, committed_metadata=""
            )
            for p, o in offsets.items()
        ]
        request = OffsetCommitRequest(
            group_id=GROUP,
            generation_id_or_member_epoch=self.generation,
            member_id=self._member_id,
            group_instance_id=self.instance_id,
            topics=[OffsetCommitRequestTopic(name=TOPIC, partitions=partitions)],
        )

        generation = self.generation

        def hear(answer: Any) -> None:
            if _commit_turn(answer) is Turn.GO_ON:
                self._count(generation, offsets)

        return _commit_turn(
            await self.world.ask(lambda groups: groups.commit(request, self._caller), hear)
        )

    async def _commit_in_transaction(self, offsets: dict[int, int]) -> Turn:
        world = self.world
        producer_id = world.new_producer_id()
        world.open_transactions.add(producer_id)
        partitions = [
            TxnOffsetCommitRequestPartition(
                partition_index=p, committed_offset=o, committed_metadata=""
            )
            for p, o in offsets.items()
        ]
        request = TxnOffsetCommitRequest(
            transactional_id=self.name,
            group_id=GROUP,
            producer_id=producer_id,
            producer_epoch=0,
            generation_id=self.generation,
            member_id=self._member_id,
            group_instance_id=self.instance_id,
            topics=[TxnOffsetCommitRequestTopic(name=TOPIC, partitions=partitions)],
        )
        is_commit, generation = False, self.generation
        try:
            answer = await world.ask(
                lambda groups: groups.commit_in_transaction(
                    request, self._caller, lambda _: world.vouch(producer_id)
                )
            )
            turn = _commit_turn(answer)
            is_commit = turn is Turn.GO_ON and self._rng.random() < 0.8
        finally:
            counted = partial(self._count, generation, offsets) if is_commit else None
            ended = world.end_transaction(producer_id, counted)
        await asyncio.wait([ended])
        return turn

    def _count(self, generation: int, offsets: dict[int, int]) -> None:
        for partition, offset in offsets.items():
            self.world.checker.on_committed(self.name, generation, partition, offset)


def _asking_for(wanted: WantedOffsets) -> Callable[[GroupCoordinator], Awaitable[FoundOffsets]]:
    return lambda groups: groups.find_offsets(wanted)


def _stable(found: FoundOffsets) -> list[tuple[int, int]]:
    return [
        (each.partition, each.committed.offset)
        for _, offsets in found.topics
        for each in offsets
        if each.code is ErrorCode.NONE
    ]


def _turn(answer: Any) -> Turn:
    if isinstance(answer, ErrorCode):
        return Turn.AGAIN
    return _TURNS.get(ErrorCode(answer.error_code), Turn.AGAIN)


def _commit_turn(answer: Any) -> Turn:
    if isinstance(answer, ErrorCode):
        return Turn.AGAIN
    codes = {p.error_code for topic in answer.topics for p in topic.partitions}
    return next((_TURNS.get(ErrorCode(c), Turn.AGAIN) for c in codes if c), Turn.GO_ON)


def _share_out(member_ids: list[str]) -> dict[str, list[int]]:
    """Deal the partitions to the members in turn."""
    return {
        member_id: list(range(PARTITIONS))[place :: len(member_ids)]
        for place, member_id in enumerate(sorted(member_ids))
    }
