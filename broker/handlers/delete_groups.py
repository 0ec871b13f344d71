"""DeleteGroups: groups without members go, and their offsets with them."""

from broker.context import RequestContext
from broker.handlers import handles
from core.runtime.tasks import together
from protocol.kafka.apis import DELETE_GROUPS
from protocol.kafka.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)


@handles(DELETE_GROUPS)
async def delete_groups(ctx: RequestContext, request: DeleteGroupsRequest) -> DeleteGroupsResponse:
    """DeleteGroups v0-2: each group has its own answer, and one that is named twice has one.

    Answered when the tombstones are confirmed, COORDINATOR_NOT_AVAILABLE if that takes too long.
    Errors: NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND.
    Source: KafkaApis.handleDeleteGroupsRequest, GroupCoordinatorShard.deleteGroups.
    """
    group_ids = list(dict.fromkeys(request.groups_names))
    codes = await together([ctx.broker.groups.delete(name) for name in group_ids])
    return DeleteGroupsResponse(
        results=[
            DeletableGroupResult(group_id=name, error_code=code)
            for name, code in zip(group_ids, codes, strict=True)
        ]
    )
