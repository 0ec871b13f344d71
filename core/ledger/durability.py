"""How many regions hold every acknowledged entry, and which quorums can keep that promise.

    minRegionsForDurability = m: no m - 1 regions hold an ack quorum of any write set

So the number of acknowledgements is enough to know that an entry is in m regions, and losing m - 1
regions loses nothing. A ledger carries its promise in its custom metadata, because whoever replaces
bookies later, in recovery for one, has to keep it. Source: DistributedLog "Region Aware Data
Placement Policy"; BookKeeper RegionAwareEnsemblePlacementPolicy.newEnsemble.
"""

from collections.abc import Mapping
from typing import Final

from tailrace.core.errors import CorruptData
from tailrace.core.runtime.decimal_text import decimal

PROMISE_KEY: Final = "reppMinimumRegionsForDurability"
"""Key of a ledger's custom metadata; the value is a decimal number."""
REGIONS_MAX: Final = 999


def durability_problem(write_quorum: int, ack_quorum: int, regions_min: int) -> str | None:
    """Return why such quorums cannot promise `regions_min` regions; None: they can.

    They must be able to keep it when only `regions_min` regions are left: of Qw copies spread as
    evenly as can be, all regions but the emptiest then hold Qw - Qw // m, too few for an ack.
    """
    if regions_min <= 1:
        return None
    if ack_quorum < regions_min:
        return f"an ack quorum of {ack_quorum} cannot span {regions_min} regions"
    most = write_quorum - write_quorum // regions_min
    if ack_quorum <= most:
        return (
            f"an ack quorum of {ack_quorum} of {write_quorum} can be had without one of"
            f" {regions_min} regions: it must be above {most}"
        )
    return None


def with_promise(custom: Mapping[str, bytes], regions_min: int) -> dict[str, bytes]:
    """Return a new ledger's custom metadata; without a promise nothing is added."""
    return {**custom, PROMISE_KEY: b"%d" % regions_min} if regions_min > 1 else dict(custom)


def promise_of(custom: Mapping[str, bytes]) -> int | None:
    """Return the regions that a ledger was promised, None if it says nothing.

    Errors: CorruptData for what is no number.
    """
    value = custom.get(PROMISE_KEY)
    if value is None:
        return None
    promised = decimal(value.decode("latin-1"), REGIONS_MAX)
    if promised is None:
        raise CorruptData(f"custom metadata {PROMISE_KEY} is {value!r}, not a number of regions")
    return promised
