"""Committed records of a block of batches: how many, and which keys. Pure."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tailrace.compaction.cleaner.block import Block
from tailrace.compaction.cleaner.building import columns_of, keys_of
from tailrace.compaction.cleaner.cleanable import AbortedRange
from tailrace.compaction.cleaner.columns import Columns
from tailrace.compaction.cleaner.headers import Choice, read_headers
from tailrace.compaction.cleaner.key_summary import Offsets, Words
from tailrace.protocol.ids import Buffer, Offset
from tailrace.protocol.records.batch import BatchHeader


class Wanted(NamedTuple):
    """What of a block is looked at: offsets below `end`."""

    count_from: Offset
    keys_from: Offset
    end: Offset


class Walked(NamedTuple):
    """What was found. Of clients' records: no markers, nothing that was aborted."""

    records: int
    tombstones: int
    keyless: int
    digests: Words
    """Of records with a key from `keys_from` on; the next two are beside them."""
    offsets: Offsets
    deletes: Choice


def walk(
    batches: Sequence[Buffer], aborted: Sequence[AbortedRange], wanted: Wanted
) -> Walked | None:
    """Look at whole batches; None if none of them has anything that counts.

    `aborted`: the transactions that have records among them. Errors: CorruptBatch.
    """
    first = min(wanted.count_from, wanted.keys_from)
    block = Block.of(batches)
    headers = read_headers(block)
    counts = (headers.record_count != 0) & (headers.last_offset >= first) & ~headers.is_control
    for at in np.flatnonzero(counts & headers.is_of_transaction).tolist():
        counts[at] = not _is_aborted(headers[at], aborted)
    taken = np.flatnonzero(counts)
    if not taken.size:
        return None
    return _count(columns_of(block, headers, taken), wanted)


def _count(columns: Columns, wanted: Wanted) -> Walked:
    inside = columns.offset < wanted.end
    counted = inside & (columns.offset >= wanted.count_from)
    has_key = columns.key_size >= 0
    keyed = inside & has_key & (columns.offset >= wanted.keys_from)
    return Walked(
        records=int(np.count_nonzero(counted)),
        tombstones=int(np.count_nonzero(counted & has_key & ~columns.has_value)),
        keyless=int(np.count_nonzero(counted & ~has_key)),
        digests=keys_of(columns, keyed),
        offsets=columns.offset[keyed],
        deletes=~columns.has_value[keyed],
    )


def _is_aborted(header: BatchHeader, aborted: Sequence[AbortedRange]) -> bool:
    return any(
        each.producer_id == header.producer_id
        and each.first_offset <= header.base_offset <= each.last_offset
        for each in aborted
    )
