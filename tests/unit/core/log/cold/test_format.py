"""The bytes of an object: what goes in comes out, and no wrong byte comes out at all."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.core.errors import ColdObjectCorrupt
from tailrace.core.log.cold.format import (
    HEADER_PREFIX_BYTES,
    TRAILER_BYTES,
    Block,
    Index,
    decode_block,
    decode_header,
    decode_index,
    decode_trailer,
    encode_index,
    header_size,
)
from tailrace.core.log.cold.reader import spans
from tailrace.protocol.bookkeeper.entry import Entry
from tests.unit.core.log.cold.ledgers import LEDGER, build, entries_of

PAYLOADS = st.lists(st.binary(max_size=300), max_size=40)


def take_apart(data: bytes) -> list[Entry]:
    """Read an object as its format says, whole, and refuse whatever is wrong."""
    index_at, size = decode_trailer(data[-TRAILER_BYTES:], "o")
    if index_at + size + TRAILER_BYTES != len(data):
        raise ColdObjectCorrupt("the sizes do not add up")
    index = decode_index(data[index_at : index_at + size], "o")
    decode_header(data[: header_size(data[:HEADER_PREFIX_BYTES], "o")], "o")
    return [
        entry
        for block in index.blocks
        for entry in decode_block(
            data[block.position : block.position + block.size], block, LEDGER, "o"
        )
    ]


@given(payloads=PAYLOADS, block_bytes=st.integers(1, 500))
def test_entries_come_out_as_they_went_in(payloads: list[bytes], block_bytes: int) -> None:
    data, writer = build(payloads, block_bytes)
    assert take_apart(data) == entries_of(payloads)
    assert writer.position == len(data)
    index = decode_index(data[writer.index_at : -TRAILER_BYTES], "o")
    assert index.entries == len(payloads)
    assert index.crc32c == writer.crc32c


@given(payloads=st.lists(st.binary(max_size=60), min_size=1, max_size=12), data=st.data())
def test_blocks_of_a_range_hold_it_and_no_more(payloads: list[bytes], data: st.DataObject) -> None:
    """Against the dumb way: look into every block."""
    raw, writer = build(payloads, 50)
    index = decode_index(raw[writer.index_at : -TRAILER_BYTES], "o")
    first = data.draw(st.integers(0, len(payloads) - 1))
    last = data.draw(st.integers(first, len(payloads) - 1))
    wanted = [
        number
        for number, block in enumerate(index.blocks)
        for entry in decode_block(
            raw[block.position : block.position + block.size], block, LEDGER, "o"
        )
        if first <= entry.entry_id <= last
    ]
    assert list(index.block_numbers(first, last)) == sorted(set(wanted))


def test_every_flipped_bit_is_found() -> None:
    data, _ = build([b"a" * 30, b"", b"b" * 70], 40)
    for position in range(len(data)):
        flipped = bytearray(data)
        flipped[position] ^= 1 << position % 8
        with pytest.raises(ColdObjectCorrupt):
            take_apart(bytes(flipped))


def test_an_object_that_was_cut_anywhere_is_found() -> None:
    data, _ = build([b"a" * 30, b"b" * 70], 40)
    for size in range(len(data)):
        with pytest.raises(ColdObjectCorrupt):
            take_apart(data[:size])


@pytest.mark.parametrize(
    "blocks",
    [
        (Block(1, 0, 10, 0),),
        (Block(0, 0, 10, 0), Block(0, 10, 10, 0)),
        (Block(0, 0, 10, 0), Block(1, 11, 10, 0)),
        (Block(0, 0, 0, 0),),
        (Block(0, 0, 2**32 - 1, 0),),
        (Block(0, 0, 10, 0), Block(9, 10, 10, 0)),
    ],
)
def test_an_index_that_contradicts_itself_is_refused(blocks: tuple[Block, ...]) -> None:
    """Also with a right checksum: it decides what a reader asks for."""
    with pytest.raises(ColdObjectCorrupt):
        decode_index(encode_index(Index(blocks, 9, 0)), "o")


def test_a_header_of_a_later_version_is_refused() -> None:
    data, _ = build([], 10)
    head = data[: header_size(data, "o")]
    with pytest.raises(ColdObjectCorrupt, match="begins"):
        header_size(head.replace(b"TRCOLD01", b"TRCOLD02"), "o")


@given(
    sizes=st.lists(st.integers(1, 50), max_size=20),
    bytes_max=st.integers(1, 100),
)
def test_spans_keep_order_and_bound(sizes: list[int], bytes_max: int) -> None:
    blocks = [Block(number, 0, size, 0) for number, size in enumerate(sizes)]
    runs = list(spans(blocks, bytes_max))
    assert [block for run in runs for block in run] == blocks
    assert all(len(run) == 1 or sum(b.size for b in run) <= bytes_max for run in runs)
    assert all(
        sum(b.size for b in run) + after[0].size > bytes_max for run, after in pairwise(runs)
    )
