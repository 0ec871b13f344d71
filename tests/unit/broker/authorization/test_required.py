"""The table of what APIs need is what their handlers ask for: no row too many, none missing."""

from collections import defaultdict
from pathlib import Path
from typing import Any, Final

import tailrace.broker.handlers.registry  # noqa: F401 - fills the table of handlers
from tailrace.broker.authorization.required import REQUIRED
from tailrace.broker.handlers import HANDLERS
from tailrace.core.access.acls.model import Operation, ResourceType
from tailrace.core.access.acls.model import Operation as Op
from tailrace.core.access.acls.model import ResourceType as Of
from tailrace.protocol.kafka import apis
from tailrace.protocol.kafka.api import Api
from tailrace.protocol.kafka.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from tailrace.protocol.kafka.messages.describe_cluster import DescribeClusterRequest
from tailrace.protocol.kafka.messages.describe_transactions import DescribeTransactionsRequest
from tailrace.protocol.kafka.messages.list_groups import ListGroupsRequest
from tailrace.protocol.kafka.messages.list_transactions import ListTransactionsRequest
from tailrace.protocol.kafka.messages.metadata import MetadataRequest
from tests.unit.broker.authorization.admin_cases import ADMIN_CASES
from tests.unit.broker.authorization.cases import CASES, Case
from tests.unit.broker.authorization.requests import produced
from tests.unit.broker.authorization.support import (
    Grant,
    SetAuthorizer,
    guard,
    open_transaction,
    reading_group,
    whole_world,
)
from tests.unit.broker.handlers.admin_support import admin, run
from tests.unit.broker.handlers.ask import ask

Asked = defaultdict[str, set[tuple[Operation, ResourceType]]]

ELSEWHERE = frozenset(
    {
        "CreateDelegationToken",
        "DescribeDelegationToken",
        "ExpireDelegationToken",
        "RenewDelegationToken",
        "SaslAuthenticate",
        "SaslHandshake",
    }
)
"""Compared beside their own tests, with what they need there."""

OPEN = {"DescribeTopicPartitions"}
"""Asks for every operation on its topics each time: a field of its answers."""

LOOKS: Final[tuple[Grant, ...]] = (
    (Op.WRITE, Of.TOPIC, "__consumer_offsets"),
    (Op.DESCRIBE, Of.TRANSACTIONAL_ID, "x"),
    (Op.DESCRIBE, Of.GROUP, "c"),
)


def _looks() -> list[tuple[Api[Any, Any], int, Any]]:
    """Return requests that ask for more than what they name."""
    internal = produced()
    internal.topic_data[0].name = "__consumer_offsets"
    everything = MetadataRequest(topics=None, include_cluster_authorized_operations=True)
    cluster = DescribeClusterRequest(include_cluster_authorized_operations=True)
    return [
        (apis.METADATA, 9, everything),
        (apis.DESCRIBE_CLUSTER, 1, cluster),
        (apis.LIST_GROUPS, 5, ListGroupsRequest()),
        (apis.LIST_TRANSACTIONS, 0, ListTransactionsRequest()),
        (apis.DESCRIBE_TRANSACTIONS, 0, DescribeTransactionsRequest(transactional_ids=["x"])),
        (apis.CONSUMER_GROUP_DESCRIBE, 1, ConsumerGroupDescribeRequest(group_ids=["c"])),
        (apis.PRODUCE, 9, internal),
    ]


async def _collect(ask_: Any, authorizer: SetAuthorizer, cases: list[Case], found: Asked) -> None:
    for case in cases:
        needs = list(case.needs)
        for allowed in ([], needs, *([n for n in needs if n != need] for need in needs)):
            authorizer.change(*allowed)
            authorizer.asked.clear()
            await ask_(case.api, case.version, case.request())
            found[case.api.name] |= authorizer.asked


def test_the_table_has_what_handlers_ask_for(tmp_path: Path) -> None:
    found: Asked = defaultdict(set)

    async def story() -> None:
        async with whole_world() as world:

            async def of_world(*request: Any) -> None:
                await ask(world, *request)

            await reading_group(world)
            await open_transaction(world)
            authorizer = guard(world)
            for api, version, request in _looks():
                authorizer.change(*LOOKS)
                authorizer.asked.clear()
                await of_world(api, version, request)
                found[api.name] |= authorizer.asked
            await _collect(of_world, authorizer, CASES, found)
        async with admin(tmp_path) as to:
            await to.topics.create("t", 3)
            authorizer = to.broker.authorizer = SetAuthorizer()
            await _collect(to.ask, authorizer, ADMIN_CASES, found)

    run(story)
    for name, needs in REQUIRED.items():
        if name in ELSEWHERE:
            continue
        stated = {(need.operation, need.resource_type) for need in needs}
        if name in OPEN:
            assert stated <= found[name]
        else:
            assert stated == found[name], name


def test_every_api_that_is_served_has_a_row() -> None:
    assert {each.api.name for each in HANDLERS.values()} <= REQUIRED.keys()
