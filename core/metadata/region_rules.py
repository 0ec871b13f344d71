"""Which regions take new copies at this time: what an operator changes while all is running.

    {"reppRegionsToWrite": ["eu", "us"], "disallowBookiePlacement": ["us"]}

The first wins over the processes' own settings; the second closes regions, as BookKeeper's feature
`disallow_bookie_placement` does: a region is emptied before it is removed, for one. Both are
optional, and ledgers that are being written stay where they are until they end.
"""

from typing import Final

import msgspec

from tailrace.core.errors import CorruptData
from tailrace.core.runtime.stored_json import NOT_JSON

REGION_RULES_PATH: Final = "/tailrace/regions"
"""Where processes look for them, unless reppRegionRulesPath says otherwise."""


class RegionRules(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The rules of a moment."""

    to_write: tuple[str, ...] | None = msgspec.field(default=None, name="reppRegionsToWrite")
    """The regions that may be written; None: as each process is configured; empty: all."""
    disallowed: frozenset[str] = msgspec.field(default=frozenset(), name="disallowBookiePlacement")
    """Regions that take nothing new."""


NO_RULES: Final = RegionRules()


def parse_region_rules(data: bytes) -> RegionRules:
    """Read the node of the rules; an empty one says nothing. Errors: CorruptData."""
    try:
        return _DECODER.decode(data) if data.strip() else NO_RULES
    except NOT_JSON as error:
        raise CorruptData(f"the region rules cannot be read: {error}") from error


def encode_region_rules(rules: RegionRules) -> bytes:
    """Return the data of the node."""
    said: dict[str, list[str]] = {}
    if rules.to_write is not None:
        said["reppRegionsToWrite"] = list(rules.to_write)
    if rules.disallowed:
        said["disallowBookiePlacement"] = sorted(rules.disallowed)
    return msgspec.json.encode(said)


_DECODER: Final = msgspec.json.Decoder(RegionRules)
