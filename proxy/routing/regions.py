"""Which region's proxies a request goes to: the local ones first, then the others'. Pure.

A proxy whose region takes no more streams answers REGION_UNAVAILABLE; for the rest of that request
the hosts of its region are passed over.
Source: DistributedLog RegionsRoutingService, DefaultRegionResolver; reference 9.3.
"""

from collections.abc import Container, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from tailrace.proxy.routing.ring import Host, Ring

DEFAULT_REGION: Final = "default-region"

REGIONS_MAX: Final = 100

_NO_OVERRIDES: Final[Mapping[Host, str]] = MappingProxyType({})
_LABEL_PARTS: Final = 4


def region_of(host: Host, overrides: Mapping[Host, str] = _NO_OVERRIDES) -> str:
    """Return the region that a host's name says: `eu-r1-proxy-7.example.com` is in `eu`.

    The first label of the name has exactly four parts between dashes, and the first part is the
    region; else it is `default-region`. `overrides` go before. Nothing is resolved: a host that is
    an IP address has no region in it, where Java asks the DNS for its name.
    Source: DefaultRegionResolver.
    """
    if host in overrides:
        return overrides[host]
    parts = host.name.split(".", 1)[0].split("-")
    return parts[0] if len(parts) == _LABEL_PARTS else DEFAULT_REGION


class Regions:
    """The rings of all regions. Replaced, never changed.

    Shape: (region, ring) pairs, the local one first; at most `REGIONS_MAX`.
    """

    def __init__(
        self,
        rings: Sequence[tuple[str, Ring]],
        overrides: Mapping[Host, str] = _NO_OVERRIDES,
    ) -> None:
        """Errors: ValueError for more than `REGIONS_MAX` rings."""
        if len(rings) > REGIONS_MAX:
            raise ValueError(f"{len(rings)} regions, at most {REGIONS_MAX}")
        self._rings = tuple(rings)
        self._overrides = dict(overrides)

    def region_of(self, host: Host) -> str:
        """Return the region of a host: overrides, its name, then the first ring that has it.

        The ring comes last so that a host keeps the region that DistributedLog gives it. It is
        there for hosts that are registered by address, which have no region of their own.
        """
        region = region_of(host, self._overrides)
        if region != DEFAULT_REGION or host in self._overrides:
            return region
        return next((name for name, ring in self._rings if host in ring.addresses), region)

    def candidates(
        self,
        stream: str,
        tried: Container[Host] = (),
        unavailable: Container[str] = (),
    ) -> Iterator[Host]:
        """Yield the hosts for a stream: each ring's in its order, ring after ring, each host once.

        `tried`: hosts that never come. `unavailable`: regions (`region_of`) that answered
        REGION_UNAVAILABLE to this request; their hosts never come. Both are asked while the caller
        iterates. Where one ring has hosts of several regions, Java passes over the whole ring by
        the region of the first; here each host is judged by its own.
        Cost: that of `Ring.candidates`, and a test of each ring for a host without a region.
        """
        seen: set[Host] = set()
        for _, ring in self._rings:
            for host in ring.candidates(stream, tried):
                if host not in seen and self.region_of(host) not in unavailable:
                    yield host
                seen.add(host)

    def first(
        self,
        stream: str,
        tried: Container[Host] = (),
        unavailable: Container[str] = (),
    ) -> Host | None:
        """Return the host to ask for a stream; None: nothing is left. As `candidates`."""
        return next(self.candidates(stream, tried, unavailable), None)
