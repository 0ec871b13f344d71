"""Where the acknowledged part of a file ends: torn at every byte, zeroed, damaged, forged."""

import random
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.bookie import group_scan
from tailrace.bookie.flipped_bit import FlippedBit, find_flipped_bit
from tailrace.bookie.group_format import Group, Stop, group_crc, pack_size, pack_trailer, read_group
from tailrace.bookie.group_scan import GroupScan
from tailrace.bookie.journal_format import pack_padding
from tailrace.core.errors import CorruptData
from tailrace.protocol.bookkeeper.entry import FRAME_BYTES_LIMIT
from tailrace.protocol.crc32c import crc32c

FILE_ID = 7
START = 100


def record(ledger_id: int, entry_id: int, payload: bytes = b"x" * 30) -> bytes:
    body = struct.pack(">qqq", ledger_id, entry_id, entry_id - 1) + payload
    return pack_size(len(body)) + body


def group(
    start: int, records: list[bytes], file_id: int = FILE_ID, *, synced: bool = True
) -> bytes:
    length = sum(map(len, records))
    return b"".join((*records, pack_trailer(file_id, start, length, records, synced=synced)))


def file_of(groups: list[list[bytes]], *, synced: bool = True) -> tuple[bytes, list[int]]:
    """Return a file and where each group ends."""
    image = bytes(START)
    ends = []
    for records in groups:
        image += group(len(image), records, synced=synced)
        ends.append(len(image))
    return image, ends


def scan(image: bytes, alignment: int = 1) -> tuple[list[Group], int]:
    scanner = GroupScan(lambda n, at: image[at : at + n], "f", FILE_ID, alignment)
    return list(scanner.groups(START)), scanner.end


GROUPS = [[record(1, 0), record(2, 0)], [record(1, 1, b"y" * 600)], [record(1, 2), record(3, 0)]]


def test_whole_file() -> None:
    image, ends = file_of(GROUPS)
    groups, end = scan(image)
    assert end == len(image)
    assert [g.end for g in groups] == ends
    assert [r[:3] for r in groups[0].records] == [(1, 0, -1), (2, 0, -1)]
    position = groups[1].records[0][3]
    assert image[position : position + 16] == struct.pack(">qq", 1, 1)


def test_cut_at_every_byte_leaves_the_groups_before() -> None:
    image, ends = file_of(GROUPS)
    for size in range(START, len(image)):
        _, end = scan(image[:size])
        assert end == max([START, *(e for e in ends if e <= size)])
        _, end = scan(image[:size] + bytes(5000))
        assert end == max([START, *(e for e in ends if e <= size)])


@pytest.mark.parametrize("block", [1, 512, 4096])
def test_zeroed_blocks_of_the_last_group_cut_it_only(block: int) -> None:
    payload = bytes(range(1, 256)) * 60
    image, ends = file_of([*GROUPS, [record(1, 3, payload), record(1, 4, payload)]])
    for at in range(ends[-2], len(image), block if block > 1 else 97):
        torn = image[:at] + bytes(min(block, len(image) - at)) + image[at + block :]
        if torn == image:
            continue
        groups, end = scan(torn)
        assert end == ends[-2]
        assert len(groups) == 3


def test_damage_before_an_acknowledged_group_is_never_cut() -> None:
    image, ends = file_of(GROUPS)
    for at in range(START, ends[1]):
        flipped = bytearray(image)
        flipped[at] ^= 0x40
        try:
            groups, end = scan(bytes(flipped))
        except CorruptData:
            continue  # the structure is broken: records would be lost
        assert end == len(image)
        assert [g.intact for g in groups].count(False) == 1


def test_a_flipped_bit_of_a_head_is_put_right_by_the_checksum() -> None:
    short = pack_size(16) + struct.pack(">qq", 5, 6)
    groups = [[record(1, 0), short, record(2, 0)], [short], [record(3, 0)]]
    image, ends = file_of(groups)
    whole, _ = scan(image)
    heads = {r[3]: min(r[4], 24) for g in whole[:2] for r in g.records}
    put_right = 0
    for at in range(START, ends[1]):
        flipped = bytearray(image)
        flipped[at] ^= 1 << at % 8
        try:
            found, _ = scan(bytes(flipped))
        except CorruptData:
            continue
        assert [g.records for g in found] == [g.records for g in whole]
        put_right += any(head <= at < head + size for head, size in heads.items())
    assert put_right == sum(heads.values())


@given(st.data())
def test_one_bit_is_found_as_by_trying_all_and_two_are_not(data: st.DataObject) -> None:
    bodies = data.draw(st.lists(st.binary(min_size=3, max_size=9), min_size=1, max_size=4))
    gaps = data.draw(st.lists(st.binary(max_size=5), min_size=5, max_size=5))
    image, heads = bytearray(gaps[-1]), {}
    for body, gap in zip(bodies, gaps, strict=False):
        heads[len(image)] = len(body)
        image += body + gap
    bits = data.draw(
        st.lists(st.integers(0, len(image) * 8 - 1), min_size=1, max_size=2, unique=True)
    )
    stored = crc32c(bytes(image))
    for bit in bits:
        image[bit // 8] ^= 1 << bit % 8
    difference = stored ^ crc32c(bytes(image))
    found = find_flipped_bit(difference, len(image), heads)
    tried = []
    for offset in (at for head, size in heads.items() for at in range(head, head + size)):
        for value in (1 << bit for bit in range(8)):
            image[offset] ^= value
            tried += [FlippedBit(offset, value)] if crc32c(bytes(image)) == stored else []
            image[offset] ^= value
    assert tried == ([] if found is None else [found])
    assert len(bits) == 1 or found is None


def test_damage_in_a_group_written_behind_a_journal_is_cut() -> None:
    image, ends = file_of(GROUPS, synced=False)
    flipped = bytearray(image)
    flipped[ends[0] + 30] ^= 1
    _, end = scan(bytes(flipped))
    assert end == ends[0]


def test_group_of_another_file_or_place_is_none() -> None:
    records = [record(1, 0)]
    assert scan(bytes(START) + group(START, records, FILE_ID + 1))[1] == START
    assert scan(bytes(START) + group(START + 1, records))[1] == START


def test_windows_smaller_than_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_scan, "WINDOW_BYTES", 1000)
    groups = [[record(1, i, b"z" * (i * 7 % 500))] for i in range(50)]
    image, ends = file_of(groups)
    assert [g.end for g in scan(image)[0]] == ends
    broken = bytearray(image)
    broken[ends[3] + 2] ^= 0xFF
    with pytest.raises(CorruptData, match=f"position {ends[3]}"):
        scan(bytes(broken))
    broken = bytearray(image[: ends[-1]])
    broken[ends[-2] + 30] ^= 0xFF
    assert scan(bytes(broken))[1] == ends[-2]


def test_aligned_groups() -> None:
    image = bytes(START)
    ends = []
    groups_in = [[record(1, i, bytes(i))] for i in range(70)]
    for records in groups_in:
        image += group(len(image), records)
        ends.append(len(image))
        image += pack_padding(len(image), 64)
    groups, end = scan(image, alignment=64)
    assert [g.end for g in groups] == ends
    assert end == len(image)


def test_longest_group_fits_a_window() -> None:
    big = record(1, 0, bytes(FRAME_BYTES_LIMIT - 24))
    image, ends = file_of([[record(1, 1, bytes(1024 * 1024))] * 3 + [big], [record(1, 2)]])
    assert [g.end for g in scan(image)[0]] == ends


@given(st.binary(max_size=400))
def test_random_bytes_are_no_group(data: bytes) -> None:
    assert not isinstance(read_group(memoryview(data), 0, 0, FILE_ID), Group)


@settings(max_examples=60)
@given(st.data())
def test_any_subset_of_lost_blocks_keeps_what_was_acknowledged(data: st.DataObject) -> None:
    count = data.draw(st.integers(0, 6))
    rng = random.Random(data.draw(st.integers(0, 2**32)))
    groups = [
        [record(rng.randrange(5), i, rng.randbytes(rng.randrange(900))) for i in range(1, 4)]
        for _ in range(count)
    ]
    image, ends = file_of(groups)
    acknowledged = ends[-1] if ends else START
    last = [record(9, 9, rng.randbytes(3000))]
    torn = bytearray(image + group(len(image), last) + bytes(4096))
    for at in range(len(image), len(torn), 512):
        if rng.random() < 0.5:
            torn[at : at + 512] = bytes(len(torn[at : at + 512]))
    found, end = scan(bytes(torn))
    assert end >= acknowledged
    assert all(g.intact for g in found)
    assert [g.end for g in found][:count] == ends


def test_the_checksum_does_not_depend_on_how_parts_are_cut() -> None:
    data = random.Random(1).randbytes(1000)
    whole = group_crc(1, 2, 3, 1000, [data])
    assert whole == group_crc(1, 2, 3, 1000, [data[:1], data[1:600], memoryview(data)[600:]])
    assert read_group(memoryview(b""), 0, 0, 1) is Stop.SHORT
