"""Which proxy serves a stream: DistributedLog's consistent hash ring. Pure.

Every shard has 997 points on a ring of signed 64-bit numbers, made of its shard id and its address.
A stream belongs to the first point at or behind its own hash. So every client with the same hosts
names the same proxy, and a shard that comes or goes moves only the streams that it gets or had.
What is computed here is a hint: the stream's lock and fencing decide.

    key of a point:  shard-<shard>-<0..996>-<address as Java writes it>
    key of a stream: its name
    hash:            MD5 of the key in UTF-16LE, its first 8 bytes, little-endian, signed

Source: DistributedLog ConsistentHashRoutingService; reference 9.3.
"""

from array import array
from bisect import bisect_left
from collections.abc import Container, Iterable, Iterator
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from typing import Final, NamedTuple

try:  # hashlib's is OpenSSL's: twice the time for so short a text, and refused under FIPS
    from _md5 import md5  # type: ignore[import-not-found]
except ImportError:
    from hashlib import md5

POINTS: Final = 997
"""Points of one shard. Source: RoutingUtils.NUM_CONSISTENT_HASH_REPLICAS."""

HOSTS_MAX: Final = 10_000
"""Shards on one ring. Each takes 19 KB."""

UNKNOWN_SHARD: Final = -1
"""The shard in the keys of a host that is known by its address alone."""


class Host(NamedTuple):
    """Where a proxy listens."""

    name: str
    """An IP address or a host name."""
    port: int


class ShardHost(NamedTuple):
    """A host and the shard that it is. Source: DLSocketAddress."""

    shard: int
    """UNKNOWN_SHARD or any other negative number: the host has none."""
    host: Host


def ring_hash(key: str) -> int:
    """Return the place of a key on the ring: -2**63 to 2**63 - 1."""
    digest = md5(key.encode("utf-16-le", "surrogatepass")).digest()
    return int.from_bytes(digest[:8], "little", signed=True)


def host_text(host: Host) -> str:
    """Return a host as Java's InetSocketAddress writes it: `/127.0.0.1:8000`, `name:8000`.

    Java's clients resolve a name and write `name/10.0.0.1:8000`. So they agree with us on hosts
    that are registered by address, as DistributedLog's own proxies are (ServerSetAnnouncer), and
    may name another proxy first for one that is registered by name.
    """
    return f"{_java_name(host.name)}:{host.port}"


def _java_name(name: str) -> str:
    try:
        return f"/{IPv4Address(name)}"
    except AddressValueError:
        pass
    try:
        address = IPv6Address(name)
    except AddressValueError:
        return name
    if address.ipv4_mapped is not None:
        return f"/{address.ipv4_mapped}"
    groups = address.exploded.split(":")
    return f"/{':'.join(group.lstrip('0') or '0' for group in groups)}"


_MIDDLES: Final = tuple(f"-{point}-".encode("utf-16-le") for point in range(POINTS))


def shard_points(at: ShardHost) -> bytes:
    """Return the points of a shard, 8 bytes each, little-endian.

    Cost: one MD5 for each of 997 points, about 0.7 ms.
    """
    start = f"shard-{max(at.shard, UNKNOWN_SHARD)}".encode("utf-16-le")
    end = host_text(at.host).encode("utf-16-le", "surrogatepass")
    return b"".join([md5(start + middle + end).digest()[:8] for middle in _MIDDLES])


class Ring:
    """The points of some hosts. Replaced, never changed.

    Shape: at most `HOSTS_MAX` shards; an address may stand for several of them.
    """

    def __init__(self, hosts: Iterable[ShardHost] = (), former: "Ring | None" = None) -> None:
        """`former`: a ring whose points are used for the hosts that it has too.

        Errors: ValueError beyond `HOSTS_MAX`.
        Cost: 100 shards 71 ms of a core, 12 ms when `former` has 99 of them; 10,000 about 10 s,
        190 MB, and 430 MB while it builds. A process with so many builds it in a thread.
        """
        self.hosts: tuple[ShardHost, ...] = tuple(sorted(set(hosts)))
        """All of them, sorted."""
        if len(self.hosts) > HOSTS_MAX:
            raise ValueError(f"{len(self.hosts)} shards on one ring, at most {HOSTS_MAX}")
        known: dict[ShardHost, bytes] = {} if former is None else former._points_of
        self._points_of: dict[ShardHost, bytes] = {
            at: known.get(at) or shard_points(at) for at in self.hosts
        }
        self.addresses = frozenset(at.host for at in self.hosts)
        self._addresses = sorted(self.addresses)
        import numpy as np  # 0.2 s and a thread, which proxies save: clients have rings

        points = np.frombuffer(b"".join(self._points_of.values()), "<i8")
        # Two shards with one point: the lower shard comes first, for every client.
        order = np.argsort(points, kind="stable")
        index = {host: number for number, host in enumerate(self._addresses)}
        owners = np.array([index[at.host] for at in self.hosts], np.uint16)
        self._points = array("q", points[order].astype(np.int64).tobytes())
        self._owners = array("H", owners[order // POINTS].tobytes())

    def candidates(self, stream: str, tried: Container[Host] = ()) -> Iterator[Host]:
        """Yield the hosts for a stream, the one to ask first first, each host once.

        Clockwise from the stream's place, so the order is the same for all that have these hosts. A
        host in `tried` never comes: when all were tried nothing does, and the caller waits before
        it begins again. `tried` is asked while the caller iterates.
        Cost: one MD5 and a bisection for the first, 6 us; for all of 100 hosts 60 us.
        """
        owners, left = self._owners, len(self._addresses)
        count = len(owners)
        at = bisect_left(self._points, ring_hash(stream))
        seen: set[int] = set()
        for point in range(at - count, at):  # below 0 it counts from the end: round the ring once
            owner = owners[point]
            if owner in seen:
                continue
            seen.add(owner)
            host = self._addresses[owner]
            if host not in tried:
                yield host
            left -= 1
            if not left:
                return

    def first(self, stream: str, tried: Container[Host] = ()) -> Host | None:
        """Return the host to ask for a stream; None: there is none, or all were tried.

        Cost: 6 us. Source: ConsistentHashRoutingService.getHost.
        """
        return next(self.candidates(stream, tried), None)
