"""FindCoordinator: which broker coordinates a group or a transactional id."""

from typing import NamedTuple

from broker.context import RequestContext
from broker.handlers import handles
from broker.handlers._places import broker_place
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
    """FindCoordinator v0-6: the owner of the key's partition of `__consumer_offsets`.

    For a transactional id: of `__transaction_state`. The topic is made for the first key of all.
    Other kinds of keys (share groups): INVALID_REQUEST.
    Source: KafkaApis.handleFindCoordinatorRequest.
    """
    if ctx.header.api_version < BATCHED_SINCE:
        place = await _locate(ctx, request.key_type, request.key)
        return FindCoordinatorResponse(
            error_code=place.code,
            error_message=place.message or "NONE",
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
    found = await coordinator.find(key)
    if isinstance(found, ErrorCode):
        return _nowhere(found, "The coordinator is not available.")
    owner = broker.routes.owner(*found)
    for place in () if owner is None else broker_place(ctx, owner):
        return _Place(ErrorCode.NONE, None, place.node_id, place.host, place.port)
    return _nowhere(ErrorCode.COORDINATOR_NOT_AVAILABLE, "The coordinator is not available.")


def _nowhere(code: ErrorCode, message: str) -> _Place:
    return _Place(code, message, -1, "", -1)


def _coordinator(key: str, place: _Place) -> Coordinator:
    return Coordinator(
        key=key,
        node_id=place.node_id,
        host=place.host,
        port=place.port,
        error_code=place.code,
        error_message=place.message or "",
    )
