"""Where bookies stand: paths like `/region/rack`, and the tables that say which bookie is where.

The first part of a path is the region (zone-aware placement: the zone), the whole path is the rack
(zone-aware: the upgrade domain). A bookie of which nobody says anything stands at the default
location, which is a rack of its own and says nothing about failures.
Source: BookKeeper NetworkTopologyImpl; Pulsar BookieRackAffinityMapping (the JSON).
"""

from typing import Final, NamedTuple

import msgspec

from tailrace.core.errors import CorruptData
from tailrace.core.runtime.stored_json import NOT_JSON
from tailrace.protocol.ids import BookieId


class NetworkLocation(NamedTuple):
    """A place in the network."""

    region: str
    rack: str
    """The whole path: racks of different regions differ."""


DEFAULT_LOCATION: Final = NetworkLocation("default-region", "/default-region/default-rack")
"""Of a bookie that no table names."""


def parse_location(path: str) -> NetworkLocation:
    """Return the location of a path of one or more parts. Errors: ValueError."""
    parts = path.strip().strip("/").split("/")
    if not all(parts):
        raise ValueError(f"not a network location: {path!r}")
    return NetworkLocation(parts[0], "/" + "/".join(parts))


def parse_table(lines: tuple[str, ...]) -> dict[BookieId, NetworkLocation]:
    """Read `bookie=/region/rack` lines. Errors: ValueError names the line."""
    table = {}
    for line in lines:
        bookie, equals, path = line.partition("=")
        if not equals or not bookie.strip():
            raise ValueError(f"expected bookie=/region/rack, not {line!r}")
        table[BookieId(bookie.strip())] = parse_location(path)
    return table


def parse_rack_mapping(data: bytes) -> dict[BookieId, NetworkLocation]:
    """Read a node of rack mappings: `{group: {bookie: {"rack": path, ...}}}`. Errors: CorruptData.

    An empty node and empty racks are fine: they say nothing.
    """
    try:
        groups = _RACK_MAPPING.decode(data) if data.strip() else {}
        return {
            BookieId(bookie): parse_location(info.rack)
            for group in groups.values()
            for bookie, info in group.items()
            if info.rack and info.rack.strip("/ ")
        }
    except NOT_JSON as error:
        raise CorruptData(f"the rack mapping cannot be read: {error}") from error


class _BookieInfo(msgspec.Struct):
    rack: str | None = None


_RACK_MAPPING: Final = msgspec.json.Decoder(dict[str, dict[str, _BookieInfo]])
