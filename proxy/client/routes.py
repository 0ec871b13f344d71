"""The hosts that a client may ask, region by region, as lists and server sets say. Pure.

A source is a fixed list or a server set. One with a region has all its hosts there; else each host
is in the region that the overrides, its registration or its name say, in this order. The local
region's ring comes first, the others follow in the order of their names, so that clients of one
region agree.
"""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, NamedTuple

from tailrace.proxy.routing.hosts import Change, Member, RingHosts
from tailrace.proxy.routing.regions import DEFAULT_REGION, REGIONS_MAX, Regions, region_of
from tailrace.proxy.routing.ring import Host, Ring, ShardHost

_NO_OVERRIDES: Final[Mapping[Host, str]] = MappingProxyType({})
_LATER_THAN_ALL: Final = 2**62


class Source(NamedTuple):
    """Where hosts come from."""

    region: str | None = None
    """Of all its hosts; None: each host's own."""
    is_fixed: bool = False
    """A list that never changes; else a server set."""


@dataclass(slots=True)
class _Hosts:
    source: Source
    ring_hosts: RingHosts = field(default_factory=RingHosts)
    members: Sequence[Member] = ()
    regions: dict[Host, str] = field(default_factory=dict)
    """As registrations say, of members and of those that keep a place without being one."""

    def update(self, members: Sequence[Member]) -> bool:
        """Take in the members as they are now; return whether anything changed."""
        self.members = members
        change = self.ring_hosts.update(members)
        said = {member.host: member.region for member in members if member.region}
        kept = {host.host for host in self.ring_hosts.hosts} - {member.host for member in members}
        before = self.regions
        self.regions = {host: before[host] for host in kept if host in before} | said
        return bool(change) or self.regions != before


class Routes:
    """Whom to ask for a stream, by the consistent hash rings of all regions."""

    def __init__(
        self,
        sources: Sequence[Source],
        local: str | None = None,
        overrides: Mapping[Host, str] = _NO_OVERRIDES,
    ) -> None:
        """`local`: the region to ask first. None, of sources without regions: one ring of all."""
        self._sources = [_Hosts(source) for source in sources]
        self._local = local
        self._overrides = dict(overrides)
        self._has_regions = local is not None or any(each.region for each in sources)
        self._rings: dict[str, Ring] = {}
        self._regions = Regions(())

    @property
    def hosts(self) -> list[Host]:
        """Return the hosts that may be asked now, sorted."""
        return sorted({host for ring in self._rings.values() for host in ring.addresses})

    def update(self, source: int, members: Sequence[Member]) -> None:
        """Take in the members of a source, by its number, as they are now."""
        self._build_if(self._sources[source].update(members))

    def first(
        self, stream: str, tried: Container[Host] = (), unavailable: Container[str] = ()
    ) -> Host | None:
        """Return the host to ask for a stream; None: none is left."""
        return self._regions.first(stream, tried, unavailable)

    def region_of(self, host: Host) -> str:
        """Return the region of a host."""
        return self._regions.region_of(host)

    def failed(self, host: Host, now_ms: int) -> None:
        """Leave a host out for a while that could not be connected to."""
        self._build_if(*(each.ring_hosts.failed(host, now_ms) for each in self._sources))

    def refused(self, host: Host, now_ms: int) -> None:
        """Leave a host out that serves no more: until its set changes; of a list, for a while."""
        for each in self._sources:
            hosts = each.ring_hosts
            fixed = each.source.is_fixed
            self._build_if(hosts.failed(host, now_ms) if fixed else hosts.refused(host))

    def expire(self, now_ms: int) -> None:
        """Take hosts back whose time away is over."""
        self._build_if(*(each.ring_hosts.expire(now_ms) for each in self._sources))

    @property
    def is_empty(self) -> bool:
        """Whether no host may be asked."""
        return not self._rings

    def readmit(self) -> None:
        """Take back every host that was left out: without one, a guess is better than waiting."""
        for each in self._sources:
            changes = (
                each.ring_hosts.update(each.members),
                each.ring_hosts.expire(_LATER_THAN_ALL),
            )
            self._build_if(*changes)

    def _build_if(self, *changes: Change | bool) -> None:
        if not any(changes):
            return
        members = self._members()
        self._rings = {name: Ring(members[name], self._rings.get(name)) for name in members}
        order = list(self._rings)
        overrides = {
            host.host: self._region(each, host.host)
            for each in self._sources
            for host in each.ring_hosts.hosts
        }
        self._regions = Regions([(name, self._rings[name]) for name in order], overrides)

    def _members(self) -> dict[str, set[ShardHost]]:
        """Return the hosts of each region, the local one first; the last has all beyond a bound."""
        members: dict[str, set[ShardHost]] = {}
        for each in self._sources:
            for host in each.ring_hosts.hosts:
                region = self._region(each, host.host) if self._has_regions else DEFAULT_REGION
                members.setdefault(region, set()).add(host)
        order = sorted(members, key=lambda name: (name != self._local, name))
        for name in order[REGIONS_MAX:]:
            members[order[REGIONS_MAX - 1]] |= members[name]
        return {name: members[name] for name in order[:REGIONS_MAX]}

    def _region(self, hosts: _Hosts, host: Host) -> str:
        if hosts.source.region is not None:
            return hosts.source.region
        if host in self._overrides or host not in hosts.regions:
            return region_of(host, self._overrides)
        return hosts.regions[host]
