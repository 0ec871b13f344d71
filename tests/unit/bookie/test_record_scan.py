"""Records without groups, as Java's bookie writes them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.bookie import journal_format
from tailrace.bookie.record_scan import scan_records
from tailrace.core.errors import CorruptData

bodies = st.lists(st.one_of(st.binary(min_size=16, max_size=60), st.just(None)), max_size=12)


def image_of(parts: list[bytes | None], start: int) -> tuple[bytes, list[tuple[int, int]]]:
    """Return a file of records (None: padding to 512) and (position, size) of each body."""
    image = bytearray(start)
    places = []
    for body in parts:
        if body is None:
            image += journal_format.pack_padding(len(image))
        else:
            image += len(body).to_bytes(4, "big")
            places.append((len(image), len(body)))
            image += body
    return bytes(image), places


@given(bodies, st.integers(0, 40), st.integers(28, 200))
def test_all_records_and_no_padding(parts: list[bytes | None], zeros: int, window: int) -> None:
    image, places = image_of(parts, 8)
    whole = image + bytes(zeros)

    found = list(scan_records(lambda size, at: whole[at : at + size], 8, "a file", window))
    assert [(record[3], record[4]) for record in found] == places
    for ledger_id, entry_id, lac, at, size in found:
        body = image[at : at + size]
        assert ledger_id == int.from_bytes(body[:8], "big", signed=True)
        assert entry_id == int.from_bytes(body[8:16], "big", signed=True)
        assert lac == (int.from_bytes(body[16:24], "big", signed=True) if size >= 24 else -1)


@given(bodies, st.data())
def test_cut_anywhere_it_gives_a_prefix(parts: list[bytes | None], data: st.DataObject) -> None:
    image, places = image_of(parts, 0)
    cut = image[: data.draw(st.integers(0, len(image)))]
    found = list(scan_records(lambda size, at: cut[at : at + size], 0, "a file"))
    assert [(record[3], record[4]) for record in found] == [
        place for place in places if sum(place) <= len(cut)
    ]


@pytest.mark.parametrize("size", [-1, -0x101, 1, 15, 2**31 - 1])
def test_a_size_that_no_record_has_is_damage(size: int) -> None:
    image = size.to_bytes(4, "big", signed=True) + bytes(40)
    with pytest.raises(CorruptData, match=r"a file: a record of -?\d+ bytes at position 0"):
        list(scan_records(lambda length, at: image[at : at + length], 0, "a file"))


def test_padding_that_is_too_long_is_damage() -> None:
    image = (-0x100).to_bytes(4, "big", signed=True) + b"\x7f\xff\xff\xff" + bytes(40)
    with pytest.raises(CorruptData, match="padding of 2147483647 bytes"):
        list(scan_records(lambda length, at: image[at : at + length], 0, "a file"))
