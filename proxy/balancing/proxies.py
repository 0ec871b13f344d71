"""The write proxies of a namespace as an operator sees them: registered where, owning what.

    nodes of the server set -> Registered -> Handshake, ListStreams -> ProxyView

Proxies are asked side by side, a bounded number at once. One that does not answer is a view with a
`trouble`: it is no error, for that is what an operator wants to see.
"""

import asyncio
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeVar, cast

from google.protobuf.message import Message
from grpc_health.v1 import health_pb2

from tailrace.core.errors import CorruptData, NoNode
from tailrace.core.metadata.node_reads import read_nodes
from tailrace.core.metadata.store import MetadataStore
from tailrace.core.runtime.tasks import together
from tailrace.protocol.proxy.methods import PROXY_ADMIN, WRITE_PROXY, Method, Service
from tailrace.protocol.proxy.proxy_admin_pb2 import ListStreamsRequest, ReleaseToRequest
from tailrace.protocol.proxy.write_proxy_pb2 import (
    HandshakeRequest,
    HeartbeatRequest,
    SetAcceptNewStreamRequest,
    StreamRequest,
)
from tailrace.proxy.client.reactions import Outcome, Trouble
from tailrace.proxy.client.transport import CallFailed, Ended, Transport
from tailrace.proxy.owner.codes import ServerStatus, StatusCode
from tailrace.proxy.owner.loads import Load
from tailrace.proxy.owner.location import ProxyLocation
from tailrace.proxy.routing.hosts import Member
from tailrace.proxy.routing.members import decode_member, member_number
from tailrace.proxy.routing.regions import region_of
from tailrace.proxy.routing.ring import Host

T = TypeVar("T")

ASKED_AT_ONCE: Final = 64
"""Proxies that are asked side by side."""

_HEALTH: Final = Method(
    "check",
    "/grpc.health.v1.Health/Check",
    health_pb2.HealthCheckRequest,
    health_pb2.HealthCheckResponse,
    is_request_stream=False,
    is_response_stream=False,
)


class Registered(NamedTuple):
    """A member of a server set, and since when."""

    member: Member
    status: str
    """As its node says: ALIVE usually."""
    since_ms: int
    """When it registered. Unit: ms since the epoch."""

    @property
    def name(self) -> str:
        """`HOST:PORT`, by which operators call it."""
        host = self.member.host
        return f"[{host.name}]:{host.port}" if ":" in host.name else f"{host.name}:{host.port}"

    @property
    def region(self) -> str:
        """As it registered, else as its host's name says."""
        return self.member.region or region_of(self.member.host)

    @property
    def location(self) -> ProxyLocation:
        """As locks and answers name it."""
        return ProxyLocation(self.member.shard, self.member.host.name, self.member.host.port)


@dataclass(frozen=True, slots=True)
class ProxyView:
    """What one proxy says of itself."""

    registered: Registered
    status: ServerStatus | None = None
    """None: it did not answer."""
    streams: dict[str, Load] = field(default_factory=dict)
    """Those that it owns, that were asked for."""
    trouble: str = ""
    """Why it did not answer; "": it did."""


class Reply(NamedTuple):
    """What came of a request."""

    outcome: Outcome
    text: str = ""
    location: str = ""
    """With FOUND."""

    @property
    def words(self) -> str:
        """For people."""
        return f"{self.outcome.name}: {self.text}" if self.text else self.outcome.name


async def read_members(store: MetadataStore, path: str) -> list[Registered]:
    """Return the members of a server set, the newest of each address, by address.

    What does not decode is left out. Errors: Unavailable. Cost: two round trips, and one more for
    each 128 members.
    """
    try:
        names = await store.children(path)
    except NoNode:
        return []
    found: dict[Host, Registered] = {}
    numbers = {number: name for name in names if (number := member_number(name)) is not None}
    ordered = dict(sorted(numbers.items()))
    nodes = await read_nodes(store, [f"{path}/{name}" for name in ordered.values()])
    for number, node in zip(ordered, nodes, strict=True):
        if node is None:
            continue  # it is gone since
        try:
            registered = decode_member(node.data)
        except CorruptData:
            continue
        at = registered.service_endpoint
        region = registered.region if isinstance(registered.region, str) else ""
        member = Member(number, registered.shard, Host(at.host, at.port), region)
        found[member.host] = Registered(member, registered.status, node.ctime_ms)
    return [found[host] for host in sorted(found)]


class ProxyOperator:
    """Asks proxies on behalf of an operator. Each request has `timeout_s` for its answer."""

    def __init__(self, transport: Transport, timeout_s: float) -> None:
        self._transport = transport
        self._timeout_s = timeout_s

    async def view(self, each: Registered, streams: str | None = None) -> ProxyView:
        """Ask one proxy what it is, and with `streams` what it owns: RE2 of names, "": all.

        Errors: none: see `ProxyView.trouble`. Cancel: nothing is asked any more.
        """
        host = each.member.host
        try:
            info: Any = await self._ask(host, WRITE_PROXY, "handshake", HandshakeRequest())
            owned = {} if streams is None else await self._streams(host, streams)
        except CallFailed as error:
            return ProxyView(each, trouble=f"{error.trouble.value} ({error})")
        except TimeoutError:
            return ProxyView(each, trouble=Trouble.TIMED_OUT.value)
        known = info.server_status in iter(ServerStatus)
        status = ServerStatus(info.server_status) if known else ServerStatus.DOWN
        return ProxyView(each, status, owned)

    async def views(
        self, members: Sequence[Registered], streams: str | None = None
    ) -> list[ProxyView]:
        """Ask all, as `view`. Shape: in the order of `members`."""
        return await self._all([self.view(each, streams) for each in members])

    async def health(self, each: Registered) -> str:
        """Return SERVING, or what else a proxy says of its health; else why it does not answer.

        Errors: none.
        """
        request = health_pb2.HealthCheckRequest()
        try:
            reply: Any = await self._transport.call(
                each.member.host, _HEALTH, request, self._timeout_s
            )
        except CallFailed as error:
            return error.trouble.value
        known = reply.status in health_pb2.HealthCheckResponse.ServingStatus.values()
        return (
            health_pb2.HealthCheckResponse.ServingStatus.Name(reply.status) if known else "UNKNOWN"
        )

    async def owner(self, members: Sequence[Registered], stream: str) -> Registered | None:
        """Return the proxy that says it owns a stream; None: none that answers does."""
        reply = await self._all([self.owns(each, stream) for each in members])
        owners = (each for each, owns in zip(members, reply, strict=True) if owns)
        return next(owners, None)

    async def owns(self, at: Registered, stream: str) -> bool:
        """Tell whether a proxy says that it owns a stream. It claims nothing."""
        reply = await self._stream_call(at, "get_owner", StreamRequest(stream=stream))
        return reply.outcome is StatusCode.SUCCESS

    async def release(self, at: Registered, stream: str) -> Reply:
        """Have a proxy let a stream go. Errors: none."""
        return await self._stream_call(at, "release", StreamRequest(stream=stream))

    async def release_to(self, host: Host, stream: str, target: ProxyLocation) -> Reply:
        """Have a proxy let a stream go, and send clients to the target. Errors: none."""
        request = ReleaseToRequest(stream=stream, location=target.text)
        return await self._reply(self._ask(host, PROXY_ADMIN, "release_to", request))

    async def heartbeat(self, at: Registered, stream: str) -> Reply:
        """Have a proxy claim a stream. Errors: none."""
        return await self._stream_call(at, "heartbeat", HeartbeatRequest(stream=stream))

    async def set_accepts(self, at: Registered, *, accepts: bool) -> ProxyView:
        """Have a proxy take new streams or not. Errors: none, as `view`."""
        request = SetAcceptNewStreamRequest(enabled=accepts)
        try:
            await self._ask(at.member.host, WRITE_PROXY, "set_accept_new_stream", request)
        except CallFailed as error:
            return ProxyView(at, trouble=f"{error.trouble.value} ({error})")
        return await self.view(at)

    async def _stream_call(self, at: Registered, name: str, request: Message) -> Reply:
        return await self._reply(self._ask(at.member.host, WRITE_PROXY, name, request))

    async def _ask(self, host: Host, service: Service, name: str, request: Message) -> Message:
        method = service.methods[name]
        return await self._transport.call(host, method, request, self._timeout_s)

    async def _reply(self, asked: Coroutine[Any, Any, Message]) -> Reply:
        try:
            header = cast("Any", await asked).header
        except CallFailed as error:
            return Reply(error.trouble, str(error))
        code = header.code if header.code in iter(StatusCode) else StatusCode.UNEXPECTED
        return Reply(StatusCode(code), header.error, header.location)

    async def _streams(self, host: Host, regex: str) -> dict[str, Load]:
        """Return what a proxy owns. Errors: CallFailed, TimeoutError (between two responses)."""
        call = await self._transport.open(host, PROXY_ADMIN.methods["list_streams"])
        found: dict[str, Load] = {}
        with Ended(call):
            await call.send(ListStreamsRequest(stream_name_regex=regex))
            await call.done_sending()
            while True:
                async with asyncio.timeout(self._timeout_s):
                    response: Any = await call.receive()
                if response is None:
                    return found
                for each in response.streams:
                    load = Load(each.records_per_second, each.bytes_per_second)
                    found[each.stream] = load

    async def _all(self, asked: list[Coroutine[Any, Any, T]]) -> list[T]:
        found: list[T] = []
        for at in range(0, len(asked), ASKED_AT_ONCE):
            found += await together(asked[at : at + ASKED_AT_ONCE])
        return found
