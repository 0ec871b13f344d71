"""DescribeAcls, API 29, v1-3.

Kept: Kafka's filters, MATCH and ANY among them. Answered from what this broker knows, which may be
a moment behind a change on another one, as in Kafka. Not kept: for a filter with a code that it
does not know Kafka closes the connection (0) or finds nothing (others); here it is INVALID_REQUEST.
"""

from tailrace.broker.context import RequestContext
from tailrace.broker.errors import KafkaError
from tailrace.broker.handlers import handles
from tailrace.broker.handlers._acls import acls_for, filter_of
from tailrace.core.access.acls.model import Operation
from tailrace.protocol.kafka.apis import DESCRIBE_ACLS
from tailrace.protocol.kafka.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)


@handles(DESCRIBE_ACLS)
async def describe_acls(ctx: RequestContext, request: DescribeAclsRequest) -> DescribeAclsResponse:
    """Return the ACLs that are asked for, by resource pattern. Needs DESCRIBE on the cluster."""
    try:
        patterns = acls_for(ctx, Operation.DESCRIBE).patterns
        wanted = filter_of(request)
    except KafkaError as error:
        return DescribeAclsResponse(error_code=error.code, error_message=error.detail)
    pace = ctx.pace()
    resources: list[DescribeAclsResource] = []
    async for pattern, entries in pace.each(list(patterns.items())):
        if not wanted.pattern.matches(pattern):
            continue
        acls = [
            AclDescription(
                principal=entry.principal,
                host=entry.host,
                operation=entry.operation,
                permission_type=entry.permission,
            )
            async for entry in pace.each(entries)
            if wanted.entry.matches(entry)
        ]
        if acls:
            resource = DescribeAclsResource(
                resource_type=pattern.resource_type,
                resource_name=pattern.name,
                pattern_type=pattern.pattern_type,
                acls=acls,
            )
            resources.append(resource)
    return DescribeAclsResponse(error_message=None, resources=resources)
