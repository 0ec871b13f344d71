"""DeleteGroups: groups without members go, and their offsets with them."""

from itertools import islice
from typing import Final

from tailrace.broker.context import RequestContext
from tailrace.broker.handlers import handles
from tailrace.core.access.acls.model import Operation, ResourceType
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.kafka.apis import DELETE_GROUPS
from tailrace.protocol.kafka.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)

AT_ONCE: Final = 64
"""Groups that are deleted at the same time, so that their tombstones share a sync."""
GROUP_UNITS: Final = 5
"""What it takes to delete one group."""


@handles(DELETE_GROUPS)
async def delete_groups(ctx: RequestContext, request: DeleteGroupsRequest) -> DeleteGroupsResponse:
    """DeleteGroups v0-2: each group has its own answer, and one that is named twice has one.

    Answered when the tombstones are confirmed, COORDINATOR_NOT_AVAILABLE if that takes too long:
    of those behind one that took too long, too, of which none is deleted then.
    Errors: NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND.
    Source: KafkaApis.handleDeleteGroupsRequest, GroupCoordinatorShard.deleteGroups.
    """
    pace, groups = ctx.pace(), ctx.broker.groups
    codes: dict[str, ErrorCode] = {}
    async for name in pace.each(request.groups_names):
        if code := ctx.refusal(Operation.DELETE, ResourceType.GROUP, name):
            codes[name] = code
    names = iter(dict.fromkeys(each for each in request.groups_names if each not in codes))
    while some := list(islice(names, AT_ONCE)):
        codes.update(await groups.delete(some))
        await pace.spend(GROUP_UNITS * len(some))
        if ErrorCode.COORDINATOR_NOT_AVAILABLE in codes.values():
            codes.update(dict.fromkeys(names, ErrorCode.COORDINATOR_NOT_AVAILABLE))
    return DeleteGroupsResponse(
        results=[
            DeletableGroupResult(group_id=name, error_code=code)
            async for name, code in pace.each(codes.items())
        ]
    )
