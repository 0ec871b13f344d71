"""Group handlers over a real coordinator, asked and answered through the wire codec."""

import asyncio
import inspect
from typing import Any, TypeVar

import tailrace.broker.handlers.registry  # noqa: F401 - fills the table of handlers
from tailrace.broker.handlers import HANDLERS, Deferred
from tailrace.protocol.kafka.api import Api
from tailrace.protocol.kafka.codec import (
    decode_request,
    decode_response,
    encode_request,
    encode_response,
)
from tailrace.protocol.kafka.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from tests.unit.broker.coordinator.runtime_support import GROUP, Groups

Q = TypeVar("Q")
R = TypeVar("R")


def ask_soon(groups: Groups, api: Api[Q, R], version: int, request: Q) -> Any:
    """Ask as a client does, and return what the handler returned."""
    body = memoryview(encode_request(api, version, request))
    ctx = groups.world.context(api.key, version, "app")
    return HANDLERS[api.key].function(ctx, decode_request(api, version, body))


async def answer_of(answer: Any, api: Api[Any, R], version: int) -> R:
    """Wait for a handler's answer, and read it as a client does."""
    if inspect.isawaitable(answer):
        answer = await answer
    elif isinstance(answer, Deferred):
        await asyncio.wait([answer.future])
        answer = answer.build()
    parts = encode_response(api, version, answer)
    return decode_response(api, version, memoryview(b"".join(parts)))


async def ask(groups: Groups, api: Api[Q, R], version: int, request: Q) -> R:
    """Ask and wait: what a version cannot carry is lost on the way."""
    return await answer_of(ask_soon(groups, api, version, request), api, version)


def joining(member_id: str = "", **fields: Any) -> JoinGroupRequest:
    """Return a JoinGroup of the group that the tests know."""
    defaults: dict[str, Any] = {
        "group_id": GROUP,
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 60_000,
        "member_id": member_id,
        "protocol_type": "consumer",
        "protocols": [JoinGroupRequestProtocol(name="range", metadata=b"meta")],
    }
    return JoinGroupRequest(**{**defaults, **fields})


def versions(api: Api[Any, Any]) -> list[int]:
    """Return the versions of an API that are served."""
    return list(api.versions)


__all__ = ["JoinGroupResponse", "answer_of", "ask", "ask_soon", "joining", "versions"]
