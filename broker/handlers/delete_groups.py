"""DeleteGroups: groups without members go, and their offsets with them."""

from broker.context import RequestContext
from broker.handlers import handles
from protocol.kafka.apis import DELETE_GROUPS
from protocol.kafka.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)


@handles(DELETE_GROUPS)
async def delete_groups(ctx: RequestContext, request: DeleteGroupsRequest) -> DeleteGroupsResponse:
    """DeleteGroups v0-2: each group has its own answer, and one that is named twice has one.

    Answered when the tombstones are confirmed. Errors: NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND.
    Source: KafkaApis.handleDeleteGroupsRequest, GroupCoordinatorShard.deleteGroups.
    """
    group_ids = list(dict.fromkeys(request.groups_names))
    asked = [ctx.broker.groups.delete(group_id) for group_id in group_ids]
    codes = [await answer for answer in asked]
    return DeleteGroupsResponse(
        results=[
            DeletableGroupResult(group_id=group_id, error_code=code)
            for group_id, code in zip(group_ids, codes, strict=True)
        ]
    )
