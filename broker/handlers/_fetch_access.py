"""What a fetch may read: a consumer reads the topics that it may, a following broker all."""

from functools import partial

from tailrace.broker.context import RequestContext
from tailrace.broker.fetching.access import DENIED, FetchAccess
from tailrace.broker.fetching.collection import Collection
from tailrace.core.access.acls.model import Operation, ResourceType
from tailrace.core.runtime.loop_turns import Pace
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.kafka.messages.fetch import FetchRequest

REPLICA_STATE_SINCE = 15


def access_of(ctx: RequestContext, request: FetchRequest) -> FetchAccess | None:
    """Return what decides which topics may be read; None: all may be."""
    broker = ctx.broker
    if broker.authorizer is None:
        return None
    return FetchAccess(broker.authorizer, partial(_refusal, ctx, request), broker.parked)


def replica_of(ctx: RequestContext, request: FetchRequest) -> int:
    """Return the broker that asks, -1 for a consumer."""
    if ctx.header.api_version >= REPLICA_STATE_SINCE:
        return request.replica_state.replica_id
    return request.replica_id


async def has_lost_access(collection: Collection, pace: Pace) -> bool:
    """Return whether the client may not read any more what it could; its records are gone then.

    When it returns, what may be read is what is allowed now. Cost: a comparison if nothing has
    changed; else a question for each topic, in steps.
    """
    access, found = collection.access, False
    while access is not None and access.is_outdated():
        if collection.session is not None:
            collection.session.look_at_all(access.version)
        async for target in pace.each(collection.targets):
            was = target.error
            access.check(target)
            if target.error is DENIED and was is not DENIED:
                collection.size -= target.give_up(DENIED)
                found = True
    return found


def _refusal(ctx: RequestContext, request: FetchRequest, topic: str) -> ErrorCode:
    if replica_of(ctx, request) < 0:
        return ctx.refusal(Operation.READ, ResourceType.TOPIC, topic)
    return ErrorCode.NONE if ctx.may(Operation.CLUSTER_ACTION) else DENIED
