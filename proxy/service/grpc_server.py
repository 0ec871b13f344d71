"""The gRPC server of a proxy: any services of the contract, health and reflection.

A service is a class with one method for each rpc, which takes and gives messages and does not know
gRPC. This decodes, encodes, bounds and ends calls:

    connection -> gRPC's limits -> bytes -> message -> may it? -> service -> message or bytes

TLS and who calls: `call_access.py`. Health and reflection are open to everybody: they say that the
proxy serves, and what its contract is.

Invariant: each call that began ends: with its answer, with a status, or cancelled; `close` returns
after the last one, and nothing of a call runs after its end.
Source: gRPC's core concepts; grpc.health.v1; grpc.reflection.v1alpha.
"""

import errno
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine
from contextlib import aclosing
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

import grpc
from google.protobuf.message import DecodeError, Message
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from tailrace.core.runtime.host import check_address
from tailrace.protocol.proxy.methods import Method, Service
from tailrace.proxy.service.call_access import CallAccess, Entered
from tailrace.proxy.service.config import GrpcConfig
from tailrace.proxy.service.invalid import InvalidRequest

logger = logging.getLogger(__name__)

T = TypeVar("T")
Reply: TypeAlias = Message | bytes
"""A message, or one that is encoded already."""
Context: TypeAlias = "grpc.aio.ServicerContext[bytes, Reply]"

_CAUSE_CHARACTERS: Final = 200
"""Of an error that a peer is sent: it may quote what the peer sent."""
_PING_MS_MIN: Final = 10_000
"""Clients may ask so often whether the server lives. gRPC ends connections that ask more often, by
default than every five minutes: a thin client notices a dead owner far sooner."""
_HANDSHAKE_MS: Final = 10_000
"""A handshake that is not over by then ends its connection."""
_PENDING_MIN: Final = 3_000
"""Calls that may wait to be taken, one in a turn of the loop, or `proxy.calls.max` if that is more.

gRPC cancels what is beyond, so CANCELLED is what such a client gets. By default it cancels from
1,000 on, by chance: a third of 10,000 readers that came back at once.
"""
_HEALTH: Final = health_pb2.DESCRIPTOR.services_by_name["Health"].full_name


class GrpcServer:
    """One port, and the services behind it. All calls come from the loop.

    bind, guard, add each service, start; then stop_serving and close.
    """

    def __init__(
        self,
        config: GrpcConfig,
        credentials: "grpc.ServerCredentials | None" = None,
    ) -> None:
        """`credentials` None: without TLS."""
        self._config = config
        self._access: CallAccess | None = None
        self._credentials = credentials
        self._server = grpc.aio.server(
            options=_options(config), maximum_concurrent_rpcs=config.calls_max
        )
        self._health = health.aio.HealthServicer()
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        self._names: list[str] = []

    def bind(self, host: str, port: int) -> int:
        """Take the port; return which it is. `port` 0 picks one. Before `start`.

        Errors: OSError when the address is taken, or is not one of this machine.
        """
        check_address(host, port)  # gRPC says neither why it cannot listen nor where
        at = f"{host}:{port}" if host and ":" not in host else f"[{host or '::'}]:{port}"
        try:
            if self._credentials is not None:
                return self._server.add_secure_port(at, self._credentials)
            return self._server.add_insecure_port(at)
        except RuntimeError as error:
            raise OSError(errno.EADDRINUSE, f"cannot listen: {error}", at) from error

    def guard(self, access: CallAccess) -> None:
        """Ask `access` who calls, and whether it may. Before `add`; without it all are let in."""
        self._access = access

    def add(self, service: Service, instance: object) -> None:
        """Serve a service. Before `start`.

        `instance` has a method for each of the service's, by its name in snake case: `async def
        write(request) -> response`, or a generator of responses; a stream of requests comes as an
        iterator. A response is a message or its bytes. InvalidRequest ends a call with
        INVALID_ARGUMENT, any other exception with INTERNAL.
        Errors: AttributeError for an instance that lacks one.
        """
        handlers = {
            each.path.rpartition("/")[2]: _handler(
                _Rpc(each, getattr(instance, each.name), self._access)
            )
            for each in service.methods.values()
        }
        handler = grpc.method_handlers_generic_handler(service.name, handlers)
        self._server.add_generic_rpc_handlers((handler,))
        self._names.append(service.name)

    async def start(self) -> None:
        """Serve, be SERVING, and describe the services by reflection."""
        described = [*self._names, _HEALTH, reflection.SERVICE_NAME]
        reflection.enable_server_reflection(described, self._server)
        for name in self._names:
            await self._health.set(name, health_pb2.HealthCheckResponse.SERVING)
        await self._server.start()

    async def stop_serving(self) -> None:
        """Answer NOT_SERVING to requests for its health from now on. Calls are served still."""
        await self._health.enter_graceful_shutdown()

    async def close(self) -> None:
        """Refuse new calls, let running ones end for a grace time, then cancel them. Idempotent.

        Errors: none. Cancel: the calls are cancelled at once.
        """
        await self.stop_serving()
        await self._server.stop(self._config.grace_ms / 1000)


def _options(config: GrpcConfig) -> list[tuple[str, int]]:
    pending_max = max(config.calls_max, _PENDING_MIN)
    return [
        ("grpc.max_receive_message_length", config.message_bytes_max),
        ("grpc.max_send_message_length", -1),
        ("grpc.max_metadata_size", config.metadata_bytes_max),
        ("grpc.absolute_max_metadata_size", config.metadata_bytes_max),
        ("grpc.max_concurrent_streams", config.connection_calls_max),
        ("grpc.server.max_pending_requests", pending_max),
        ("grpc.server.max_pending_requests_hard_limit", pending_max),
        ("grpc.keepalive_time_ms", config.keepalive_ms),
        ("grpc.keepalive_timeout_ms", config.keepalive_timeout_ms),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.min_ping_interval_without_data_ms", _PING_MS_MIN),
        ("grpc.max_connection_idle_ms", config.connection_idle_ms),
        ("grpc.so_reuseport", 0),
        ("grpc.server_handshake_timeout_ms", _HANDSHAKE_MS),
    ]


def encode(reply: Reply) -> bytes:
    """Return an answer's bytes."""
    return reply if isinstance(reply, bytes) else reply.SerializeToString()


def decode(kind: type[Message], data: bytes) -> Message:
    """Return a request. Errors: InvalidRequest."""
    try:
        return kind.FromString(data)
    except DecodeError as error:
        cause = str(error)[:_CAUSE_CHARACTERS]
        raise InvalidRequest(f"{kind.DESCRIPTOR.name} does not decode: {cause}") from error


class _Rpc(NamedTuple):
    """One method, and what serves it."""

    method: Method
    serve: Callable[..., Any]
    access: CallAccess | None

    async def enter(self, context: Context) -> Entered | None:
        """Find out who calls; None: nobody asks. Errors: NotLetIn."""
        return None if self.access is None else await self.access.enter(self.method, context)

    async def request(self, data: bytes, entered: Entered | None) -> Message:
        """Return a request that is let in. Errors: InvalidRequest."""
        request = decode(self.method.request, data)
        if entered is not None:
            await entered.check(request)
        return request


def _handler(rpc: _Rpc) -> "grpc.RpcMethodHandler[Any, Any]":
    """Return what gRPC calls for a method.

    A stream of answers is written by a coroutine: gRPC would leave a generator that was cancelled
    to the garbage collector.
    """
    method = rpc.method
    if method.is_request_stream and method.is_response_stream:
        return grpc.stream_stream_rpc_method_handler(_many_to_many(rpc), response_serializer=encode)
    if method.is_response_stream:
        return grpc.unary_stream_rpc_method_handler(_one_to_many(rpc), response_serializer=encode)
    assert not method.is_request_stream, "the contract has no such method"
    return grpc.unary_unary_rpc_method_handler(_one_to_one(rpc), response_serializer=encode)


async def _guarded(method: Method, context: Context, call: Coroutine[Any, Any, T]) -> T:
    """Do a call; a failure ends it with a status that says no more than a peer should know."""
    try:
        return await call
    except InvalidRequest as error:
        await context.abort(grpc.StatusCode[error.status], str(error))
    except Exception:  # of ours, whatever it is: gRPC would send its text to the peer
        logger.exception("call_failed method=%s", method.path)
        await context.abort(grpc.StatusCode.INTERNAL, "the proxy failed; its log says why")


def _one_to_one(rpc: _Rpc) -> Callable[..., Any]:
    async def answer(data: bytes, context: Context) -> Reply:
        entered = await rpc.enter(context)
        reply: Reply = await rpc.serve(await rpc.request(data, entered))
        return reply if entered is None else await entered.shown(reply)

    async def call(data: bytes, context: Context) -> Reply:
        return await _guarded(rpc.method, context, answer(data, context))

    return call


def _one_to_many(rpc: _Rpc) -> Callable[..., Any]:
    async def answer(data: bytes, context: Context) -> None:
        entered = await rpc.enter(context)
        replies = rpc.serve(await rpc.request(data, entered))
        await _write_all(replies, context, entered)

    async def call(data: bytes, context: Context) -> None:
        await _guarded(rpc.method, context, answer(data, context))

    return call


def _many_to_many(rpc: _Rpc) -> Callable[..., Any]:
    async def requests(context: Context, entered: Entered | None) -> AsyncGenerator[Message, None]:
        while True:
            data: Any = await context.read()
            if data is grpc.aio.EOF:
                return
            yield await rpc.request(data, entered)

    async def answer(context: Context) -> None:
        async with aclosing(requests(context, await rpc.enter(context))) as each:
            await _write_all(rpc.serve(each), context)

    async def call(_: AsyncIterator[bytes], context: Context) -> None:
        await _guarded(rpc.method, context, answer(context))

    return call


async def _write_all(
    replies: AsyncGenerator[Reply, None], context: Context, entered: Entered | None = None
) -> None:
    """Write what a service gives, as long as the caller may have it. Errors: NotLetIn."""
    async with aclosing(replies):
        async for reply in replies:
            if entered is not None:
                entered.recheck()
            try:
                await context.write(reply)
            except grpc.aio.BaseError:
                return  # the peer has ended the call: there is nothing left to answer
