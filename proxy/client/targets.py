"""What a client's user names as its proxies, and how they are followed.

"distributedlog://zk1:2181;zk2:2181/messaging/ns"     those that are registered there
["10.0.0.1:8000", "10.0.0.2:8000"]                    these
{"eu": "distributedlog://...", "us": ["..."]}         those of each region
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Final, NamedTuple, TypeAlias

from tailrace.core.metadata.uri import parse_namespace_uri
from tailrace.core.metadata.zookeeper import ZookeeperStore
from tailrace.core.metadata.zookeeper_acls import ZookeeperAccess
from tailrace.core.runtime.decimal_text import decimal
from tailrace.proxy.client.routes import Source
from tailrace.proxy.routing.hosts import Member
from tailrace.proxy.routing.members import READ_PROXIES, WRITE_PROXIES, MemberWatch
from tailrace.proxy.routing.regions import REGIONS_MAX
from tailrace.proxy.routing.ring import HOSTS_MAX, UNKNOWN_SHARD, Host

Place: TypeAlias = str | Sequence[str]
Target: TypeAlias = Place | Mapping[str, Place]

_PORT_MAX: Final = 65_535
_NAME_MAX: Final = 255

OnMembers: TypeAlias = Callable[[int, Sequence[Member]], None]
"""Hears the members of a source, by its number."""


class At(NamedTuple):
    """One source, taken apart."""

    source: Source
    hosts: tuple[Host, ...]
    """Of a fixed list."""
    uri: str
    """Of a namespace; "" for a list."""


def parse_target(target: Target) -> list[At]:
    """Take a target apart. Errors: ValueError names what is wrong."""
    if not isinstance(target, Mapping):
        return [_at(None, target)]
    if not 0 < len(target) <= REGIONS_MAX:
        raise ValueError(f"{len(target)} regions; 1 to {REGIONS_MAX} are taken")
    return [_at(region, place) for region, place in target.items()]


def parse_host(text: str) -> Host:
    """Read HOST:PORT, of IPv6 as [HOST]:PORT. Errors: ValueError."""
    name, colon, port = text.strip().rpartition(":")
    number = decimal(port, _PORT_MAX)
    name = name.removeprefix("[").removesuffix("]")
    if not colon or not number or not 0 < len(name) <= _NAME_MAX or any(map(str.isspace, name)):
        raise ValueError(f"{text!r} is not HOST:PORT")
    return Host(name, number)


def _at(region: str | None, place: Place) -> At:
    if isinstance(place, str) and "://" in place:
        uri = parse_namespace_uri(place)
        return At(Source(region), (), uri.text)
    if isinstance(place, str) and place.startswith("sqlite:"):
        raise ValueError(f"{place!r}: name the address of its proxy, HOST:PORT")
    texts = place.split(",") if isinstance(place, str) else place
    hosts = tuple(dict.fromkeys(map(parse_host, texts)))
    if not 0 < len(hosts) <= HOSTS_MAX:
        raise ValueError(f"{len(hosts)} proxies; 1 to {HOSTS_MAX} are taken")
    return At(Source(region, is_fixed=True), hosts, "")


class Following:
    """The server sets that a client follows, until its stack closes."""

    def __init__(
        self, stack: AsyncExitStack, session_timeout_ms: int, access: ZookeeperAccess
    ) -> None:
        self._stack = stack
        self._access = access
        self._session_timeout_ms = session_timeout_ms
        self._stores: dict[str, ZookeeperStore] = {}

    async def follow(self, targets: Sequence[At], name: str, on_members: OnMembers) -> None:
        """Hand on the members of each source, and all changes. `name`: `.write_proxy`, say.

        Errors: Unavailable when no server answers. Cost: a session for each group of servers.
        """
        for number, at in enumerate(targets):
            if at.hosts:
                on_members(number, [Member(0, UNKNOWN_SHARD, host) for host in at.hosts])
                continue
            uri = parse_namespace_uri(at.uri)
            store = await self._store(uri.hosts)

            def hear(members: list[Member], number: int = number) -> None:
                on_members(number, members)

            watch = MemberWatch(store, f"{uri.root}/{name}", hear)
            self._stack.push_async_callback(watch.close)
            watch.start()

    async def _store(self, hosts: str) -> ZookeeperStore:
        if hosts not in self._stores:
            store = await ZookeeperStore.connect(
                hosts, session_timeout_ms=self._session_timeout_ms, access=self._access
            )
            self._stack.push_async_callback(store.close)
            self._stores[hosts] = store
        return self._stores[hosts]


__all__ = ["READ_PROXIES", "WRITE_PROXIES", "At", "Following", "parse_host", "parse_target"]
