"""Who may call what of a proxy: one row a method, in Kafka's operations.

    metadata, certificate -> who calls (core/access/callers.py) -> the method's row -> authorizer

A stream is a TOPIC by its name. What a call was let in for holds until the access lists change:
then its next message, in either direction, asks again.
Source: gRPC's guide on authentication; status codes UNAUTHENTICATED, PERMISSION_DENIED.
"""

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol
from urllib.parse import unquote

from google.protobuf.message import Message

from tailrace.core.access.acls.model import CLUSTER_NAME, Operation, ResourceType
from tailrace.core.access.audit import Action, Audit, Door
from tailrace.core.access.authorizer import Authorizer
from tailrace.core.access.callers import Call, Caller, Callers
from tailrace.core.access.requester import Requester
from tailrace.core.access.sasl.mechanism import AuthenticationFailed
from tailrace.core.errors import CoreError, OverCapacity, Unavailable
from tailrace.core.runtime.clock import Clock, SystemClock
from tailrace.core.runtime.metrics import counter
from tailrace.protocol.proxy.methods import PROXY_ADMIN, READ_PROXY, WRITE_PROXY, Method
from tailrace.protocol.proxy.write_proxy_pb2 import ServerInfo
from tailrace.proxy.service.invalid import NotLetIn

logger = logging.getLogger(__name__)

NAMES_A_TURN: Final = 500
"""Streams of a handshake's answer that are asked about before others have their turn."""
_IPV4_MAPPED: Final = "::ffff:"
_DOOR: Final = "GRPC"
_AUTHORIZATION: Final = "authorization"


class Need(NamedTuple):
    """What a method needs to be allowed."""

    operation: Operation
    resource_type: ResourceType = ResourceType.TOPIC


_ALTER_CLUSTER: Final = Need(Operation.ALTER, ResourceType.CLUSTER)
_WRITES: Final[Mapping[str, Need | None]] = {
    "handshake": None,  # its answer names the streams that the caller may describe
    "get_owner": Need(Operation.DESCRIBE),
    "write": Need(Operation.WRITE),
    "write_bulk": Need(Operation.WRITE),
    "write_stream": Need(Operation.WRITE),
    "heartbeat": Need(Operation.WRITE),
    "truncate": Need(Operation.DELETE),
    "create": Need(Operation.CREATE),
    "delete": Need(Operation.DELETE),
    "release": Need(Operation.ALTER),
    "set_accept_new_stream": _ALTER_CLUSTER,
}
_READS: Final[Mapping[str, Need | None]] = {
    "read": Need(Operation.READ),
    "read_last": Need(Operation.READ),
    "list_segments": Need(Operation.DESCRIBE),
}
_ADMIN: Final[Mapping[str, Need | None]] = {
    "list_streams": Need(Operation.DESCRIBE, ResourceType.CLUSTER),
    "release_to": _ALTER_CLUSTER,
}
NEEDS: Final = {
    service.methods[name].path: need
    for service, needs in ((WRITE_PROXY, _WRITES), (READ_PROXY, _READS), (PROXY_ADMIN, _ADMIN))
    for name, need in needs.items()
}
"""By the paths of all methods; None: being known is enough."""


class CallContext(Protocol):
    """What gRPC says of a call."""

    def peer(self) -> str:
        """Return the caller's address, as `ipv4:10.0.0.1:4711`."""

    def invocation_metadata(self) -> Any:
        """Return the call's metadata: pairs."""

    def auth_context(self) -> Mapping[str, Any]:
        """Return what the TLS handshake found out."""


@dataclass(slots=True)
class CallAccessMetrics:
    """Calls that were not let in. Register them as `proxy_access`."""

    unauthenticated_total: int = counter("calls that did not say who calls, or not truly")
    denied_total: int = counter("calls, or messages, of who may not do what was asked")


async def _same_name(stream: str) -> str:
    return stream


class CallAccess:
    """Lets calls in. All calls come from the loop."""

    def __init__(
        self,
        callers: Callers,
        authorizer: Callable[[], Authorizer | None],
        topic_of: Callable[[str], Awaitable[str]] = _same_name,
        clock: Clock | None = None,
        audit: Audit | None = None,
    ) -> None:
        """`topic_of` returns the name by which a stream is authorized; it may raise CoreError."""
        self.metrics = CallAccessMetrics()
        self._callers = callers
        self._authorizer = authorizer
        self._topic_of = topic_of
        self._audit = audit
        self.now_ms = (clock or SystemClock()).now_ms

    async def enter(self, method: Method, context: CallContext) -> "Entered":
        """Find out who calls. Errors: NotLetIn."""
        call = call_of(context)
        try:
            caller = await self._callers.caller(call)
        except AuthenticationFailed as error:
            self.metrics.unauthenticated_total += 1
            if self._audit is not None and call.brings:
                self._audit.refused(call.host, _DOOR, call.brings, error.reason)
            logger.info("call_unauthenticated peer=%s reason=%r", call.host, error.reason)
            raise NotLetIn("UNAUTHENTICATED", str(error)) from None
        except (OverCapacity, Unavailable) as error:
            raise NotLetIn("UNAVAILABLE", str(error)) from error
        return Entered(self, method, caller)

    async def resource(self, kind: ResourceType, stream: str) -> str:
        """Return the name of what is asked for. Errors: NotLetIn."""
        if kind is ResourceType.CLUSTER:
            return CLUSTER_NAME
        try:
            return await self._topic_of(stream)
        except CoreError as error:
            raise NotLetIn("UNAVAILABLE", f"who may use it is not known: {error}") from error

    @property
    def version(self) -> int | None:
        """That of the access lists; None: everything is allowed."""
        authorizer = self._authorizer()
        return None if authorizer is None else authorizer.version

    def allows(self, requester: Requester, need: Need, name: str, method: str = "") -> bool:
        """Return whether a caller may do something. `method`: asked for; else it is not noted."""
        authorizer = self._authorizer()
        if authorizer is None:
            return True
        allowed = authorizer.allows(requester, *need, name)
        if self._audit is not None and method:
            door, action = Door(_DOOR, method), Action(*need, name)
            self._audit.authorized(requester, door, action, object(), allowed=allowed)
        return allowed


class Entered:
    """One call whose caller is known."""

    def __init__(self, access: CallAccess, method: Method, caller: Caller) -> None:
        self._access = access
        self._expires_at_ms = caller.expires_at_ms
        self._method = method.path
        self._need = NEEDS[method.path]
        self._requester = caller.requester
        self._resource: str | None = None
        self._version: int | None = None

    async def check(self, request: Any) -> None:
        """Let a request in, or refuse it. Errors: NotLetIn."""
        if self._need is None or self._access.version is None:
            self.recheck()
            return
        if self._resource is None:
            opening = getattr(request, "open", request)  # of a write stream, whose first names it
            stream = getattr(opening, "stream", "")
            self._resource = await self._access.resource(self._need.resource_type, stream)
        self.recheck()

    def recheck(self) -> None:
        """Refuse what is not allowed any more. Errors: NotLetIn. Cost: none without a change."""
        if self._expires_at_ms is not None and self._access.now_ms() >= self._expires_at_ms:
            raise NotLetIn("UNAUTHENTICATED", "the token has expired")
        version = self._access.version
        if self._need is None or self._resource is None or version == self._version:
            return
        if not self._access.allows(self._requester, self._need, self._resource, self._method):
            self._access.metrics.denied_total += 1
            operation, kind = self._need.operation.name, self._need.resource_type.name
            text = f"{self._requester.principal} may not {operation} {kind} {self._resource}"
            raise NotLetIn("PERMISSION_DENIED", text)
        self._version = version

    async def shown(self, reply: Message | bytes) -> Message | bytes:
        """Return a reply without the streams that the caller may not know of."""
        if isinstance(reply, ServerInfo) and self._access.version is not None:
            describe = Need(Operation.DESCRIBE)
            for number, stream in enumerate(list(reply.ownerships)):
                if number % NAMES_A_TURN == NAMES_A_TURN - 1:
                    await asyncio.sleep(0)
                name = await self._access.resource(ResourceType.TOPIC, stream)
                if not self._access.allows(self._requester, describe, name):
                    del reply.ownerships[stream]
        return reply


def call_of(context: CallContext) -> Call:
    """Return what a call brings."""
    found = dict(context.invocation_metadata() or ()).get(_AUTHORIZATION)
    pem = context.auth_context().get("x509_pem_cert")
    certificate = ssl.PEM_cert_to_DER_cert(pem[0].decode()) if pem else None
    return Call(host_of(context.peer()), str(found) if found is not None else None, certificate)


def host_of(peer: str) -> str:
    """Return the address in gRPC's name of a peer, as access lists name it.

    Shape: `ipv6:%5B::1%5D:7` -> `::1`; IPv4 within IPv6 is IPv4.
    """
    kind, _, rest = peer.partition(":")
    if kind not in ("ipv4", "ipv6"):
        return peer
    host = unquote(rest).rpartition(":")[0].strip("[]")
    within = host.lower().removeprefix(_IPV4_MAPPED)
    return within if "." in within and ":" not in within else host
