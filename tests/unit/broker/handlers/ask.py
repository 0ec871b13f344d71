"""Asking a handler over fakes, through the wire codec: what a version cannot carry is lost."""

import asyncio
from typing import Any, TypeVar

import tailrace.broker.handlers.registry  # noqa: F401 - fills the table
from tailrace.broker.handlers import HANDLERS, Deferred
from tailrace.protocol.kafka.api import Api
from tailrace.protocol.kafka.codec import (
    decode_request,
    decode_response,
    encode_request,
    encode_response,
)
from tests.unit.broker.fakes import World

Q = TypeVar("Q")
R = TypeVar("R")


def call(world: World, api: Api[Q, Any], version: int, request: Q, client: str = "test") -> Any:
    """Call the handler and return what it returns: a response, a coroutine, a Deferred."""
    body = memoryview(bytearray(encode_request(api, version, request)))
    context = world.context(api.key, version, client)
    return HANDLERS[api.key].function(context, decode_request(api, version, body))


async def ask(world: World, api: Api[Q, R], version: int, request: Q, client: str = "test") -> R:
    """Return the response as a client of this version reads it."""
    answer = call(world, api, version, request, client)
    if isinstance(answer, Deferred):
        done = asyncio.Event()
        answer.future.add_done_callback(lambda _: done.set())
        await done.wait()
        answer = answer.build()
    elif asyncio.iscoroutine(answer):
        answer = await answer
    encoded = b"".join(bytes(part) for part in encode_response(api, version, answer))
    return decode_response(api, version, memoryview(encoded))
