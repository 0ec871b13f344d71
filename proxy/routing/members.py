"""The server set in the metadata store: each proxy's ephemeral node, kept there and followed.

    <namespace>/.write_proxy/member_<10 digits>    write proxies; .read_proxy: read proxies
    {"serviceEndpoint":{"host":"10.0.0.1","port":8000},
     "additionalEndpoints":{"grpc":{"host":"10.0.0.1","port":8000}},"status":"ALIVE","shard":3,
     "region":"eu"}

`region` is ours, and only there if the proxy has one: DistributedLog's readers pass over it.
DistributedLog's own proxies have the endpoint `thrift` and none of `grpc`: no client of ours can
ask them, so they are no members here. A proxy that names neither is one of ours of before.
The digits rise with each registration. A restarted proxy does not wait for the end of its former
session: it is a new member, and the newest one of a shard counts (`hosts`). Both names begin with a
dot, so a namespace lists no log for them.
Source: DistributedLog DLZkServerSet, ServerSetAnnouncer; Twitter commons ServerSetImpl, JsonCodec.
"""

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Annotated, Final, TypeAlias

import msgspec

from tailrace.core.errors import CoreError, CorruptData, NoNode
from tailrace.core.metadata.node_reads import read_nodes
from tailrace.core.metadata.store import MetadataStore, SessionEvent, WatchEvent
from tailrace.core.runtime.decimal_text import INT32_MAX, decimal
from tailrace.core.runtime.forever import Forever
from tailrace.core.runtime.stored_json import NOT_JSON
from tailrace.core.runtime.tasks import Tasks
from tailrace.proxy.routing.hosts import Member
from tailrace.proxy.routing.ring import HOSTS_MAX, Host

logger = logging.getLogger(__name__)

WRITE_PROXIES: Final = ".write_proxy"
READ_PROXIES: Final = ".read_proxy"
"""Ours: DistributedLog has no read proxies."""

ALIVE: Final = "ALIVE"

SIGN_OFF_S: Final = 2.0
"""How long a close waits for the store, which may be away."""

RETRY_S_MAX: Final = 5.0
"""Between attempts to register or to read again, at most."""

GRPC: Final = "grpc"
THRIFT: Final = "thrift"
"""Names of additional endpoints."""

_PREFIX: Final = "member_"
_DIGITS: Final = 10

MemberListener: TypeAlias = Callable[[list[Member]], None]
"""Called on the loop with all members, by number: once at first, then after each change."""


class Endpoint(msgspec.Struct, frozen=True):
    """Where a proxy listens for something."""

    host: Annotated[str, msgspec.Meta(min_length=1, max_length=255)]
    port: Annotated[int, msgspec.Meta(ge=1, le=65_535)]


class MemberNode(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What a node says. Source: Twitter commons ServiceInstance."""

    service_endpoint: Endpoint
    """Where clients connect to."""
    additional_endpoints: dict[str, Endpoint] = {}
    """Other doors by name. DistributedLog's: aurora, stats, service, thrift. Ours: grpc."""
    status: str = ALIVE
    """DEAD, STARTING, ALIVE, STOPPING, STOPPED or WARNING; clients use ALIVE ones only."""
    shard: Annotated[int, msgspec.Meta(ge=0, le=INT32_MAX)]
    region: Annotated[str, msgspec.Meta(max_length=255)] | msgspec.UnsetType = msgspec.UNSET
    """Where the proxy is; unset: clients go by its host's name."""


def proxy_node(at: Endpoint, shard: int, region: str) -> MemberNode:
    """Return the node of one of our proxies; `region` "": clients go by its host's name."""
    return MemberNode(
        service_endpoint=at,
        additional_endpoints={GRPC: at},
        shard=shard,
        region=region or msgspec.UNSET,
    )


def grpc_endpoint(node: MemberNode) -> Endpoint | None:
    """Return where a proxy speaks gRPC; None: it does not, as DistributedLog's own."""
    found = node.additional_endpoints.get(GRPC)
    if found is None and THRIFT not in node.additional_endpoints:
        return node.service_endpoint
    return found


_DECODER = msgspec.json.Decoder(MemberNode)


def encode_member(node: MemberNode) -> bytes:
    """Return the bytes of a node."""
    return msgspec.json.encode(node)


def decode_member(data: bytes) -> MemberNode:
    """Read a node, of DistributedLog's proxies too. Errors: CorruptData, also without a shard."""
    try:
        return _DECODER.decode(data)
    except NOT_JSON as error:
        raise CorruptData(f"a proxy's registration does not decode: {error}") from error


def member_number(name: str) -> int | None:
    """Return the number in a node's name; None: the node is not a member.

    ZooKeeper counts to 2**31 - 1; a set with so many registrations behind it has to be made again.
    """
    digits = name.removeprefix(_PREFIX)
    if digits == name or len(digits) != _DIGITS:
        return None
    return decimal(digits, INT32_MAX)


class MemberWatch:
    """Follows the members of one server set from `start` to `close`. All calls come from the loop.

    One watch on the list of members. When it fires, the list is read again with a new watch, and
    all nodes in it. The data of a node is not watched: it is written once, as by Twitter's servers,
    which read it once as well. Several changes in a row may be one call of the listener. While the
    store does not answer, and after a lost session, the members are read again with growing pauses,
    and the listener hears nothing before one reading went well.

    What is not the JSON of a member, has no shard or speaks thrift only is passed over with one log
    line for as long as it is there; what is not ALIVE is passed over.
    Shape: at most `HOSTS_MAX` members; beyond it the newest, with one log line.
    Cost: two round trips for each change, and one more for each 128 members.
    """

    def __init__(self, store: MetadataStore, path: str, listener: MemberListener) -> None:
        """`path`: of the server set: `<namespace>/.write_proxy`. It need not be there yet."""
        self._store = store
        self._path = path
        self._listener = listener
        self._heard: list[Member] | None = None
        self._passed_over: set[str] = set()
        self._is_over_bound = False
        self._tasks = Tasks("member_watch")

    def start(self) -> None:
        """Begin to follow, in the background."""
        self._tasks.start(self._run(), "watch")

    async def close(self) -> None:
        """Follow no more. Idempotent."""
        await self._tasks.close()

    async def _run(self) -> None:
        watch = Forever("member_watch", about=self._path, pause_s_max=RETRY_S_MAX)
        await watch.run(partial(self._follow, watch))

    async def _follow(self, watch: Forever) -> None:
        """Hand on the members that are there, and wait until they change."""
        changed = asyncio.Event()

        def fired(_path: str, _event: WatchEvent) -> None:
            changed.set()

        members = await self._read(fired)
        if members != self._heard:
            self._listener(list(members))
            self._heard = members
        watch.is_well()
        await changed.wait()

    async def _read(self, fired: Callable[[str, WatchEvent], None]) -> list[Member]:
        names = self._within_bound(await self._names(fired))
        paths = [f"{self._path}/{name}" for name in names.values()]
        nodes = await read_nodes(self._store, paths)
        former, self._passed_over = self._passed_over, set()
        found = [
            self._member(number, names[number], node.data, former)
            for number, node in zip(names, nodes, strict=True)
            if node is not None  # else it is gone since: the watch has fired
        ]
        return [member for member in found if member is not None]

    async def _names(self, fired: Callable[[str, WatchEvent], None]) -> dict[int, str]:
        """Return the names of the members by their numbers, sorted."""
        if await self._store.exists(self._path, fired) is None:
            return {}  # the watch fires when it is made
        try:
            names = await self._store.children(self._path, fired)
        except NoNode:
            return {}  # gone since: the first watch has fired
        numbers = {number: name for name in names if (number := member_number(name)) is not None}
        return dict(sorted(numbers.items()))

    def _within_bound(self, names: dict[int, str]) -> dict[int, str]:
        is_over = len(names) > HOSTS_MAX
        if is_over and not self._is_over_bound:
            logger.warning("members_over_bound path=%s count=%d", self._path, len(names))
        self._is_over_bound = is_over
        return dict(list(names.items())[-HOSTS_MAX:])

    def _member(self, number: int, name: str, data: bytes, former: set[str]) -> Member | None:
        try:
            node = decode_member(data)
        except CorruptData as error:
            self._pass_over(name, str(error), former)
            return None
        at = grpc_endpoint(node)
        if at is None:
            self._pass_over(name, "a proxy of DistributedLog's own: no gRPC", former)
        if at is None or node.status != ALIVE:
            return None
        region = "" if node.region is msgspec.UNSET else node.region
        return Member(number, node.shard, Host(at.host, at.port), region)

    def _pass_over(self, name: str, reason: str, former: set[str]) -> None:
        self._passed_over.add(name)
        if name not in former:
            logger.warning("member_passed_over path=%s/%s error=%s", self._path, name, reason)


class MemberRegistration:
    """The member that one proxy is in a server set. All calls come from the loop.

    Invariant: from the end of `register` to `close`, this session has one node there whenever the
    store answers. When the session is over the node is made again in the new one, under another
    number, with growing pauses while the store does not answer.
    Source: ServerSetAnnouncer; Twitter commons Group.
    """

    def __init__(self, store: MetadataStore, path: str, node: MemberNode) -> None:
        """`path`: of the server set, made if it is missing."""
        self._store = store
        self._set_path = path
        self._data = encode_member(node)
        self._path: str | None = None
        self._tasks = Tasks("member_registration")
        self._again = Forever("member_registration.again", about=path, pause_s_max=RETRY_S_MAX)
        self._is_wanted = False
        self._is_retrying = False
        store.on_session(self._on_session)

    @property
    def path(self) -> str | None:
        """The node that was made last; None before `register` and after `close`."""
        return self._path

    async def register(self) -> None:
        """Make the node. Not after `close`.

        Errors: Unavailable, OverCapacity (more than a node holds): call it again, or `close`, which
        removes what was made. Cancel: as Unavailable. Cost: two round trips.
        """
        await self._make()
        self._is_wanted = True

    async def close(self) -> None:
        """Sign off, within `SIGN_OFF_S`. Idempotent. The end of the session does it otherwise."""
        self._is_wanted = False
        await self._tasks.close()
        path = self._path  # another that closes it at once may end first
        try:
            async with asyncio.timeout(SIGN_OFF_S):
                if path is not None and await self._is_there():
                    await self._store.delete(path)
        except NoNode:
            pass  # its session has ended
        except (CoreError, TimeoutError) as error:
            logger.warning("member_sign_off_failed path=%s error=%r", path, error)
        self._path = None

    def _on_session(self, event: SessionEvent) -> None:
        if event is SessionEvent.NEW_SESSION and self._is_wanted and not self._is_retrying:
            self._is_retrying = True
            self._tasks.start(self._register_again(), "register again")

    async def _register_again(self) -> None:
        """Make the node again until it is there; the pauses bound the load, not the time."""
        try:
            await self._again.until_done(self._make)
        finally:
            self._is_retrying = False

    async def _make(self) -> None:
        """Make the node unless this session has it; a session takes its node along when it ends."""
        while not await self._is_there():
            self._path = await self._store.create(
                f"{self._set_path}/{_PREFIX}",
                self._data,
                ephemeral=True,
                sequential=True,
                parents=True,
            )
        logger.info("member_registered path=%s", self._path)

    async def _is_there(self) -> bool:
        """Tell whether the node is there and lives with the session of now."""
        if self._path is None:
            return False
        node = await self._store.exists(self._path)
        return node is not None and node.ephemeral_owner == self._store.session_id
