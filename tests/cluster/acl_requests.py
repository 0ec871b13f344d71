"""Access control lists as tests ask a broker for them: rows of plain values."""

from dataclasses import replace
from typing import Final

from tailrace.core.access.acls.model import (
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from tailrace.protocol.kafka.apis import CREATE_ACLS, DELETE_ACLS, DESCRIBE_ACLS
from tailrace.protocol.kafka.messages.create_acls import AclCreation, CreateAclsRequest
from tailrace.protocol.kafka.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from tailrace.protocol.kafka.messages.describe_acls import DescribeAclsRequest
from tests.cluster.raw import RawClient

AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
ME: Final = "User:ANONYMOUS"
DECIDES: Final = ("--set", f"authorizer.class.name={AUTHORIZER}")
AS_SUPER_USER: Final = (*DECIDES, "--set", f"super.users={ME}")

READS: Final = AclCreation(
    resource_type=ResourceType.TOPIC,
    resource_name="orders",
    resource_pattern_type=PatternType.LITERAL,
    principal="User:alice",
    host="*",
    operation=Operation.READ,
    permission_type=Permission.ALLOW,
)
DESCRIBES_CLUSTER: Final = replace(
    READS,
    resource_type=ResourceType.CLUSTER,
    resource_name="kafka-cluster",
    principal=ME,
    operation=Operation.DESCRIBE,
)


def create(client: RawClient, *acls: AclCreation) -> None:
    """Create ACLs, which is allowed."""
    answer = client.ask(CREATE_ACLS, 3, CreateAclsRequest(creations=acls))
    assert [each.error_code for each in answer.results] == [0] * len(acls)


def delete(client: RawClient, *acls: AclCreation) -> None:
    """Delete ACLs that are there, by filters that match no other."""
    filters = [
        DeleteAclsFilter(
            resource_type_filter=each.resource_type,
            resource_name_filter=each.resource_name,
            pattern_type_filter=each.resource_pattern_type,
            principal_filter=each.principal,
            host_filter=each.host,
            operation=each.operation,
            permission_type=each.permission_type,
        )
        for each in acls
    ]
    answer = client.ask(DELETE_ACLS, 3, DeleteAclsRequest(filters=filters))
    found = [(each.error_code, len(each.matching_acls)) for each in answer.filter_results]
    assert found == [(0, 1)] * len(acls)


def described(client: RawClient) -> list[tuple[str, str]] | int:
    """Return (resource, principal) of all ACLs, or why they are not told."""
    request = DescribeAclsRequest(
        resource_type_filter=ResourceType.ANY,
        resource_name_filter=None,
        pattern_type_filter=PatternType.ANY,
        principal_filter=None,
        host_filter=None,
        operation=Operation.ANY,
        permission_type=Permission.ANY,
    )
    answer = client.ask(DESCRIBE_ACLS, 3, request)
    found = [(at.resource_name, acl.principal) for at in answer.resources for acl in at.acls]
    return answer.error_code or sorted(found)
