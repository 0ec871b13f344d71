"""FindCoordinator: which broker coordinates a group or a transactional id."""

from typing import NamedTuple

from broker.context import RequestContext
from broker.handlers import handles
from protocol.errors import ErrorCode
from protocol.kafka.apis import FIND_COORDINATOR
from protocol.kafka.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

BATCHED_SINCE = 4
KEY_TYPE_GROUP = 0
KEY_TYPE_TRANSACTION = 1


class _Place(NamedTuple):
    code: ErrorCode
    message: str | None
    node_id: int
    host: str
    port: int


@handles(FIND_COORDINATOR)
async def find_coordinator(
    ctx: RequestContext, request: FindCoordinatorRequest
) -> FindCoordinatorResponse:
    """FindCoordinator v0-6: this broker, once `__consumer_offsets` is there.

    For a transactional id: once `__transaction_state` is. Other kinds of keys (share groups):
    INVALID_REQUEST.
    Source: KafkaApis.handleFindCoordinatorRequest.
    """
    if ctx.header.api_version < BATCHED_SINCE:
        place = await _locate(ctx, request.key_type, request.key)
        return FindCoordinatorResponse(
            error_code=place.code,
            error_message=place.message,
            node_id=place.node_id,
            host=place.host,
            port=place.port,
        )
    return FindCoordinatorResponse(
        coordinators=[
            _coordinator(key, await _locate(ctx, request.key_type, key))
            for key in request.coordinator_keys
        ]
    )


async def _locate(ctx: RequestContext, key_type: int, key: str) -> _Place:
    if key_type not in (KEY_TYPE_GROUP, KEY_TYPE_TRANSACTION):
        return _nowhere(ErrorCode.INVALID_REQUEST, f"Coordinator type {key_type} is not served.")
    broker = ctx.broker
    coordinator = broker.groups if key_type == KEY_TYPE_GROUP else broker.transactions
    code = await coordinator.prepare(key)
    if code is not ErrorCode.NONE:
        return _nowhere(code, "The coordinator is not available.")
    return _Place(ErrorCode.NONE, None, broker.node_id, *broker.advertised.to(ctx.connection))


def _nowhere(code: ErrorCode, message: str) -> _Place:
    return _Place(code, message, -1, "", -1)


def _coordinator(key: str, place: _Place) -> Coordinator:
    return Coordinator(
        key=key,
        node_id=place.node_id,
        host=place.host,
        port=place.port,
        error_code=place.code,
        error_message=place.message,
    )
