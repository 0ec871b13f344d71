import base64
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.protocol.distributedlog.dlsn import (
    DLSN,
    INITIAL,
    INVALID,
    NON_INCLUSIVE_LOWER_BOUND,
)
from tailrace.protocol.errors import BadLength, BadValue, DecodeError
from tests.golden import Vector, vectors
from tests.strategies import hostile, int64s

dlsns = st.builds(DLSN, int64s, int64s, int64s)
JAVA_V1 = [v for v in vectors("dl.txt") if v.title.startswith("v1 DLSN")]


@pytest.mark.parametrize("vector", JAVA_V1, ids=lambda vector: vector.title[8:])
def test_javas_dlsns_come_back(vector: Vector) -> None:
    dlsn = DLSN(*(int(number) for number in re.findall(r"=(-?\d+)", vector.title)))
    text, hex_form = vector.value.split()
    assert dlsn.serialize() == text
    assert dlsn.to_bytes().hex() == hex_form
    assert DLSN.deserialize(text) == DLSN.from_bytes(bytes.fromhex(hex_form)) == dlsn


def test_javas_version_0_is_padded_to_200_bytes() -> None:
    (vector,) = [v for v in vectors("dl.txt") if v.title.startswith("v0 (5,123,7)")]
    text = DLSN(5, 123, 7).serialize(version=0)
    assert len(text) == 268
    assert text.startswith(vector.value.removesuffix("..."))
    assert DLSN.deserialize(text) == DLSN(5, 123, 7)


def test_special_values_and_order() -> None:
    assert INITIAL.serialize() == "AQAAAAAAAAABAAAAAAAAAAAAAAAAAAAAAA=="
    assert (
        INVALID
        < NON_INCLUSIVE_LOWER_BOUND
        < INITIAL
        < DLSN(1, 0, 1)
        < DLSN(1, 1, 0)
        < DLSN(2, 0, 0)
    )
    assert DLSN(2, 3, 4).next_slot() == DLSN(2, 3, 5)
    assert DLSN(2, 3, 4).next_segment() == DLSN(3, 0, 0)


@given(dlsns, st.sampled_from((0, 1)))
def test_comes_back(dlsn: DLSN, version: int) -> None:
    assert DLSN.from_bytes(dlsn.to_bytes(version)) == dlsn
    assert DLSN.deserialize(dlsn.serialize(version)) == dlsn


def test_other_versions_and_lengths_are_refused() -> None:
    good = INITIAL.to_bytes()
    for length in range(len(good)):
        with pytest.raises(DecodeError):
            DLSN.from_bytes(good[:length])
    with pytest.raises(BadValue):
        DLSN.from_bytes(b"\x02" + good[1:])
    with pytest.raises(BadLength):
        DLSN.from_bytes(b"\x00" + good[1:])
    with pytest.raises(BadLength):
        DLSN.from_bytes(good + b"\x00")
    with pytest.raises(BadValue):
        DLSN.deserialize("no base64!")
    with pytest.raises(BadValue):
        DLSN.deserialize("AQ\u00e9=")
    with pytest.raises(DecodeError):
        DLSN.deserialize(base64.b64encode(b"").decode())


@given(hostile(dlsns.map(DLSN.to_bytes)))
def test_hostile_bytes_give_a_position_or_a_decode_error(data: bytes) -> None:
    try:
        DLSN.from_bytes(data)
    except DecodeError:
        return
    assert len(data) in (25, 200)


@given(st.text(max_size=50))
def test_any_text_gives_a_position_or_a_decode_error(text: str) -> None:
    try:
        DLSN.deserialize(text)
    except DecodeError:
        return
