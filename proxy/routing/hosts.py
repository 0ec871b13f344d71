"""Which hosts are on the ring, as the server set and failed connections say. Pure.

A shard that leaves the server set keeps its place: it usually comes back, often with another
address, and its streams need not move twice. A new address for the shard takes the place. A host
that cannot be connected to is away for 300 s; a shard that registers again is back at once.
A host without a shard is known by its address alone and leaves with the server set.

Two processes may say that they are one shard while the session of the former lives on. So the
member with the highest number counts, for every client. An address is one process: it stands for
one shard, that of its newest member.

Two clients that saw other server sets in the past may have other hosts: one of them then asks a
proxy that sends it on to the stream's owner.
Source: DistributedLog ConsistentHashRoutingService; reference 9.3.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from tailrace.proxy.routing.ring import HOSTS_MAX, UNKNOWN_SHARD, Host, ShardHost

AWAY_MS: Final = 300_000
"""How long a host is away that cannot be connected to. Source: blackoutSeconds."""


class Member(NamedTuple):
    """A proxy that a server set lists."""

    number: int
    """Rises with each registration in this set; 0 for hosts of a fixed list."""
    shard: int
    """Negative: unknown."""
    host: Host
    region: str = ""
    """As it registered; "": it did not say."""


@dataclass(frozen=True, slots=True)
class Change:
    """What one event did to the hosts on the ring; false if it did nothing."""

    joined: tuple[ShardHost, ...]
    left: tuple[ShardHost, ...]

    def __bool__(self) -> bool:
        """Tell whether the ring is to be built again."""
        return bool(self.joined or self.left)


class _Away(NamedTuple):
    member: Member
    until_ms: int


_Key: TypeAlias = int | Host
"""What keeps a place: a shard, or a host that has none."""


def _key(member: Member) -> _Key:
    return member.shard if member.shard >= 0 else member.host


class RingHosts:
    """The hosts of one server set. A place is on the ring, or its host is away; never both.

    Shape: at most `HOSTS_MAX` places. Beyond it the newest members count, and of the shards that
    left the server set those with the lowest numbers lose their places first.
    Unit: every `now_ms` comes from one clock that never goes back.
    """

    def __init__(self, away_ms: int = AWAY_MS) -> None:
        self._away_ms = away_ms
        self._places: dict[_Key, Member] = {}
        self._keys: dict[Host, _Key] = {}
        """Of each host on the ring."""
        self._away: dict[_Key, _Away] = {}

    @property
    def hosts(self) -> tuple[ShardHost, ...]:
        """Return the hosts that are on the ring now, sorted."""
        return tuple(sorted(_shard_host(member) for member in self._places.values()))

    @property
    def returns_ms(self) -> int | None:
        """Return when `expire` has something to do; None: nothing is away."""
        return min((away.until_ms for away in self._away.values()), default=None)

    def update(self, members: Iterable[Member]) -> Change:
        """Take in the server set as it is now.

        Source: performServerSetChange. There any change of the set brings a host back that is
        away; here that host has to register again, which its member's number shows.
        """
        before = self.hosts
        listed = _newest(members)
        for key in self._without_shard() - listed.keys():
            self._leave(key)
            self._away.pop(key, None)
        for key, member in listed.items():
            self._take_in(key, member)
        self._forget_beyond_bound(listed)
        return self._change(before)

    def failed(self, host: Host, now_ms: int) -> Change:
        """Take a host off the ring that could not be connected to, until its time is over.

        Source: removeHost with a ChannelException.
        """
        before = self.hosts
        key = self._keys.get(host)
        if key is not None:
            self._away[key] = _Away(self._places[key], now_ms + self._away_ms)
            self._leave(key)
        return self._change(before)

    def refused(self, host: Host) -> Change:
        """Take a host off the ring that serves no more, until an `update` lists it.

        For a proxy that answered SERVICE_UNAVAILABLE: it is about to leave the server set.
        Source: removeHost with another exception.
        """
        before = self.hosts
        key = self._keys.get(host)
        if key is not None:
            self._leave(key)
        return self._change(before)

    def expire(self, now_ms: int) -> Change:
        """Put back the hosts whose time away is over, unless their shards have others.

        Source: BlackoutHost.
        """
        before = self.hosts
        over = [key for key, away in self._away.items() if away.until_ms <= now_ms]
        for key in over:
            member = self._away.pop(key).member
            if key not in self._places and member.host not in self._keys:
                self._join(key, member)
        return self._change(before)

    def _take_in(self, key: _Key, member: Member) -> None:
        away = self._away.get(key)
        if away is not None:
            if member.host == away.member.host and member.number <= away.member.number:
                return  # it has not registered again since
            del self._away[key]
        self._join(key, member)

    def _join(self, key: _Key, member: Member) -> None:
        """Give a place to a member; the former host leaves it, and so does a shard of its host."""
        self._leave(key)
        other = self._keys.get(member.host)
        if other is not None:
            self._leave(other)
        self._places[key] = member
        self._keys[member.host] = key

    def _leave(self, key: _Key) -> None:
        member = self._places.pop(key, None)
        if member is not None:
            del self._keys[member.host]

    def _without_shard(self) -> set[_Key]:
        keys = {*self._places, *self._away}
        return {key for key in keys if isinstance(key, Host)}

    def _forget_beyond_bound(self, listed: dict[_Key, Member]) -> None:
        held = self._places | {key: away.member for key, away in self._away.items()}
        unlisted = sorted(held.keys() - listed.keys(), key=lambda key: held[key])
        for key in unlisted[: max(0, len(held) - HOSTS_MAX)]:
            self._leave(key)
            self._away.pop(key, None)

    def _change(self, before: tuple[ShardHost, ...]) -> Change:
        now = self.hosts
        joined, left = set(now) - set(before), set(before) - set(now)
        return Change(tuple(sorted(joined)), tuple(sorted(left)))


def _newest(members: Iterable[Member]) -> dict[_Key, Member]:
    """Return the newest member of each shard, of those that are the newest of their address."""
    of_host = {member.host: member for member in sorted(members)}
    of_key = {_key(member): member for member in sorted(of_host.values())}
    return dict(sorted(of_key.items(), key=lambda item: item[1])[-HOSTS_MAX:])


def _shard_host(member: Member) -> ShardHost:
    return ShardHost(max(member.shard, UNKNOWN_SHARD), member.host)
