"""Nothing that is asked of many access control lists holds the loop."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from tailrace.broker.authorization.config import STANDARD_AUTHORIZER, AuthorizationConfig
from tailrace.broker.config import BrokerConfig, NetworkConfig
from tailrace.core.access.acls.model import Operation, PatternType, Permission, ResourceType
from tailrace.core.runtime.kafka_connection import KafkaConnection
from tailrace.protocol.kafka.apis import CREATE_ACLS, DELETE_ACLS, DESCRIBE_ACLS
from tailrace.protocol.kafka.messages.create_acls import AclCreation, CreateAclsRequest
from tailrace.protocol.kafka.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from tailrace.protocol.kafka.messages.describe_acls import DescribeAclsRequest
from tests.cluster.in_process import running_broker
from tests.counted_loop import CALLS_MAX, CountedLoop, run_counted

MANY = 600
"""More than what a turn of the loop may be about."""
CONFIG = BrokerConfig(
    network=NetworkConfig(listeners=("PLAINTEXT://127.0.0.1:0",)),
    authorization=AuthorizationConfig(
        authorizer_class=STANDARD_AUTHORIZER, super_users_text="User:ANONYMOUS"
    ),
)
READS = AclCreation(
    resource_type=ResourceType.TOPIC,
    resource_name="t",
    resource_pattern_type=PatternType.PREFIXED,
    principal="User:a",
    host="*",
    operation=Operation.READ,
    permission_type=Permission.ALLOW,
)
MATCHES = DeleteAclsFilter(
    resource_type_filter=ResourceType.ANY,
    resource_name_filter="t1234",
    pattern_type_filter=PatternType.MATCH,
    principal_filter="User:a",
    host_filter=None,
    operation=Operation.ANY,
    permission_type=Permission.ANY,
)
EVERYTHING = DescribeAclsRequest(
    resource_type_filter=ResourceType.ANY,
    resource_name_filter=None,
    pattern_type_filter=PatternType.ANY,
    principal_filter=None,
    host_filter=None,
    operation=Operation.ANY,
    permission_type=Permission.ANY,
)


@pytest.mark.slow
def test_no_request_about_acls_holds_the_loop_for_long(tmp_path: Path) -> None:
    many_patterns = [replace(READS, resource_name=f"t{number}") for number in range(MANY)]
    many_entries = [
        replace(READS, resource_name="t", principal=f"User:{number}") for number in range(MANY)
    ]
    wrong = [replace(READS, principal="alice")] * MANY
    every_topic = replace(MATCHES, resource_name_filter=None)
    requests = [
        (CREATE_ACLS, CreateAclsRequest(creations=many_patterns)),
        (CREATE_ACLS, CreateAclsRequest(creations=[*many_entries, *wrong])),
        (DESCRIBE_ACLS, EVERYTHING),
        (DELETE_ACLS, DeleteAclsRequest(filters=[MATCHES] * MANY)),
        (DELETE_ACLS, DeleteAclsRequest(filters=[every_topic])),
    ]

    async def story(loop: CountedLoop) -> None:
        async with running_broker(tmp_path, CONFIG) as broker:
            host, _, port = str(broker.advertised.first).rpartition(":")
            client = await asyncio.to_thread(KafkaConnection, host, int(port), 120.0, "hostile")
            try:
                for api, request in requests:
                    with loop.counting():
                        await asyncio.to_thread(client.ask, api, request)
                    assert loop.longest <= CALLS_MAX, (api.name, loop.where)
            finally:
                client.close()

    run_counted(story, timeout_s=240)
