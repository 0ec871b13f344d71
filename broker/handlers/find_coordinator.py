"""FindCoordinator: which broker coordinates a group or a transactional id."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from tailrace.broker.authorization.required import WHY
from tailrace.broker.context import RequestContext
from tailrace.broker.handlers import handles
from tailrace.broker.handlers._places import broker_place
from tailrace.core.access.acls.model import Operation, ResourceType
from tailrace.core.runtime.loop_turns import Pace
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.ids import TopicPartition
from tailrace.protocol.kafka.apis import FIND_COORDINATOR
from tailrace.protocol.kafka.messages.find_coordinator import (
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
    pace = ctx.pace()
    if ctx.header.api_version < BATCHED_SINCE:
        (place,) = (await _locate(ctx, request.key_type, (request.key,), pace)).values()
        return FindCoordinatorResponse(
            error_code=place.code,
            error_message=place.message or "NONE",
            node_id=place.node_id,
            host=place.host,
            port=place.port,
        )
    places = await _locate(ctx, request.key_type, request.coordinator_keys, pace)
    return FindCoordinatorResponse(
        coordinators=[_coordinator(*each) async for each in pace.each(places.items())]
    )


async def _locate(
    ctx: RequestContext, key_type: int, keys: Iterable[str], pace: Pace
) -> Mapping[str, _Place]:
    """Return where each key's coordinator is; a key that is named twice has one answer."""
    if key_type not in (KEY_TYPE_GROUP, KEY_TYPE_TRANSACTION):
        why = f"Coordinator type {key_type} is not served."
        return dict.fromkeys(keys, _nowhere(ErrorCode.INVALID_REQUEST, why))
    type_ = ResourceType.GROUP if key_type == KEY_TYPE_GROUP else ResourceType.TRANSACTIONAL_ID
    allowed: dict[str, None] = {}
    denied: dict[str, _Place] = {}
    async for key in pace.each(keys):
        if code := ctx.refusal(Operation.DESCRIBE, type_, key):
            denied[key] = _nowhere(code, WHY[code])
        else:
            allowed[key] = None
    broker = ctx.broker
    coordinator = broker.groups if key_type == KEY_TYPE_GROUP else broker.transactions
    found = await coordinator.find_all(allowed, pace) if allowed else {}
    places = {at: _place(ctx, at) for at in set(found.values())}
    return {**denied, **{key: places[at] for key, at in found.items()}}


def _place(ctx: RequestContext, found: TopicPartition | ErrorCode) -> _Place:
    if isinstance(found, ErrorCode):
        return _nowhere(found, "The coordinator is not available.")
    owner = ctx.broker.routes.owner(*found)
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
