"""What it counts as to look into a batch, in the unit of `core/runtime/loop_work.py`."""

from typing import Final

from tailrace.protocol.records.batch import CODEC_MASK, BatchHeader
from tailrace.protocol.records.loops import WHY_PLAIN

RECORD_WORK: Final = 16 if WHY_PLAIN is None else 1600
"""What a walked record counts as, of loops that are compiled or not."""
WALKED_WORK: Final = 1 / 4 if WHY_PLAIN is None else 16
"""What a byte counts as that is only walked: with headers of two bytes it may take 7 ns."""
PACKED_WORK: Final = 2
"""What a byte counts as that is compressed: a block of five takes 0.3 us to look at."""
UNPACKED_WORK: Final = 1 if WHY_PLAIN is None else 16
"""What a byte counts as that is unpacked and walked: 1 to 3 ns, with such headers 10."""


def walk_work(header: BatchHeader, size: int) -> int:
    """Return what a batch of `size` bytes may cost, but for what comes out of it.

    Its records, as many as it claims, or its bytes.
    """
    of_bytes = size * PACKED_WORK if header.attributes & CODEC_MASK else int(size * WALKED_WORK)
    of_records = header.record_count * RECORD_WORK
    return of_records if of_records > of_bytes else of_bytes
