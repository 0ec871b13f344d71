"""A random order in which bookies with more free disk tend to come earlier.

Weights: free bytes, at most `multiple_max` times the median; a bookie that did not say counts as
the median. Source: BookKeeper WeightedRandomSelectionImpl (the cap); Efraimidis and Spirakis (the
order: keys u ** (1 / w), largest first, are draws by weight without putting back).
"""

from collections.abc import Mapping, Sequence
from statistics import median

from tailrace.protocol.ids import BookieId


def capped_weights(
    bookies: Sequence[BookieId], free_bytes: Mapping[BookieId, int], multiple_max: int
) -> list[float]:
    """Return each bookie's weight relative to the median: 0 without free disk, else up to the cap.

    All weights are 1 when nobody said anything.
    """
    known = [free_bytes[bookie] for bookie in bookies if bookie in free_bytes]
    middle = median(known) if known else 0
    if not middle:
        return [1.0] * len(bookies)
    return [min(free_bytes.get(b, middle) / middle, float(multiple_max)) for b in bookies]


def weighted_order(
    bookies: Sequence[BookieId], weights: Sequence[float], draws: Sequence[float]
) -> list[BookieId]:
    """Return the bookies in random order, weight 0 last. Shape: a draw from [0, 1) for each."""
    keys = [
        draw ** (1 / weight) if weight > 0 else -1.0
        for weight, draw in zip(weights, draws, strict=True)
    ]
    order = sorted(range(len(bookies)), key=lambda i: (-keys[i], i))
    return [bookies[i] for i in order]
