"""An authorizer that is a set, and a broker with everything that handlers ask about."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import fields, is_dataclass
from typing import Any, TypeAlias

from tailrace.broker.coordinator.config import GroupConfig
from tailrace.broker.transactions.decisions import Producer
from tailrace.core.access.acls.model import Operation, ResourceType
from tailrace.core.access.authorizer import Requester
from tailrace.protocol.errors import ErrorCode as E
from tailrace.protocol.ids import TopicPartition
from tailrace.protocol.kafka.apis import CONSUMER_GROUP_HEARTBEAT
from tailrace.protocol.kafka.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
)
from tests.unit.broker.coordinator.runtime_support import Groups
from tests.unit.broker.fakes import World, make_world
from tests.unit.broker.handlers.ask import ask
from tests.unit.broker.transactions.runtime_support import CONFIG as TRANSACTIONS
from tests.unit.broker.transactions.runtime_support import Transactions

Grant: TypeAlias = tuple[Operation, ResourceType, str]

DENIALS = frozenset(
    {
        E.TOPIC_AUTHORIZATION_FAILED,
        E.GROUP_AUTHORIZATION_FAILED,
        E.CLUSTER_AUTHORIZATION_FAILED,
        E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        E.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
    }
)


class SetAuthorizer:
    """Allows what is in a set, to everybody; remembers what it was asked."""

    def __init__(self, allowed: Iterable[Grant] = ()) -> None:
        self.allowed = set(allowed)
        self.asked: set[tuple[Operation, ResourceType]] = set()
        self.names: list[str] = []
        self.version = 1
        self._listeners: list[Callable[[], None]] = []

    def listen(self, changed: Callable[[], None]) -> None:
        self._listeners.append(changed)

    def change(self, *allowed: Grant) -> None:
        """Allow these from now on, and nothing else."""
        self.allowed = set(allowed)
        self.version += 1
        for changed in self._listeners:
            changed()

    def allows(
        self, requester: Requester, operation: Operation, resource_type: ResourceType, name: str
    ) -> bool:
        assert requester.principal == "User:ANONYMOUS"
        self.asked.add((operation, resource_type))
        self.names.append(name)
        return (operation, resource_type, name) in self.allowed

    def allows_any(
        self, requester: Requester, operation: Operation, resource_type: ResourceType
    ) -> bool:
        self.asked.add((operation, resource_type))
        return any(each[:2] == (operation, resource_type) for each in self.allowed)


def guard(world: World, *allowed: Grant) -> SetAuthorizer:
    """Have a broker ask an authorizer."""
    authorizer = SetAuthorizer(allowed)
    authorizer.listen(world.broker.parked.wake_all)
    world.broker.authorizer = authorizer
    return authorizer


def codes(answer: Any) -> set[E]:
    """Return every error code that stands anywhere in an answer."""
    found: set[E] = set()
    if isinstance(answer, list | tuple):
        return found.union(*map(codes, answer))
    names = [each.name for each in fields(answer)] if is_dataclass(answer) else None
    for name in names or getattr(answer, "__struct_fields__", ()):
        value = getattr(answer, name)
        if name.endswith("error_code"):
            found.add(E(value))
        found |= codes(value)
    return found


@asynccontextmanager
async def whole_world() -> AsyncIterator[World]:
    """Yield a broker with groups, transactions and topics `t` and `u`, of 3 partitions."""
    world = make_world(bookies=1)
    groups = Groups(world, GroupConfig(initial_rebalance_delay_ms=0, offsets_topic_partitions=1))
    transactions = Transactions(world, TRANSACTIONS)
    transactions.groups = groups.coordinator  # type: ignore[assignment]
    transactions.coordinator = transactions.make()
    world.broker.producer_ids = transactions.ids  # type: ignore[assignment]
    world.topics.add("t", 3)
    world.topics.add("u", 3)
    await groups.coordinator.start()
    await transactions.coordinator.start()
    assert await groups.prepare("g") is E.NONE
    assert await transactions.prepare() is E.NONE
    assert not codes(await groups.commit(1)) - {E.NONE}
    try:
        yield world
    finally:
        await transactions.coordinator.close()
        await groups.coordinator.close()
        await world.broker.partitions.close()
        assert len(asyncio.all_tasks()) == 1


async def reading_group(world: World) -> None:
    """Have a consumer group `c`, of KIP-848, with a member that reads `t`."""
    request = ConsumerGroupHeartbeatRequest(
        group_id="c",
        member_id="m",
        member_epoch=0,
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=["t"],
        topic_partitions=[],
    )
    answer = await ask(world, CONSUMER_GROUP_HEARTBEAT, 1, request)
    assert answer.assignment is not None


async def open_transaction(world: World) -> None:
    """Have the transactional id `x` write to `t`."""
    coordinator = world.broker.transactions
    producer = await coordinator.init_producer_id("x", 60_000, None)
    assert isinstance(producer, Producer)
    assert await coordinator.add("x", producer, [TopicPartition("t", 0)], 0) is E.NONE
