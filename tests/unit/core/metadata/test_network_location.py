import pytest

from tailrace.core.errors import CorruptData
from tailrace.core.metadata.network_location import (
    NetworkLocation,
    parse_location,
    parse_rack_mapping,
    parse_table,
)
from tailrace.protocol.ids import BookieId

B1, B2 = BookieId("b1:3181"), BookieId("b2:3181")


def test_paths() -> None:
    assert parse_location("/eu/r1") == NetworkLocation("eu", "/eu/r1")
    assert parse_location(" eu/r1/ ") == NetworkLocation("eu", "/eu/r1")
    assert parse_location("/r1") == NetworkLocation("r1", "/r1")
    for wrong in ("", "/", "/eu//r1"):
        with pytest.raises(ValueError, match="not a network location"):
            parse_location(wrong)


def test_table_of_the_configuration() -> None:
    assert parse_table(("b1:3181 = /eu/r1", "b2:3181=/us/r1")) == {
        B1: NetworkLocation("eu", "/eu/r1"),
        B2: NetworkLocation("us", "/us/r1"),
    }
    for wrong in ("b1", "=/eu/r1", "b1="):
        with pytest.raises(ValueError, match=r"expected|not a network"):
            parse_table((wrong,))


def test_rack_mapping_of_pulsar() -> None:
    data = b"""{"default": {"b1:3181": {"rack": "/eu/r1", "hostname": "b1"},
                            "b3:3181": {"rack": "", "hostname": "b3"}},
                "isolated": {"b2:3181": {"rack": "r2"}}}"""
    assert parse_rack_mapping(data) == {
        B1: NetworkLocation("eu", "/eu/r1"),
        B2: NetworkLocation("r2", "/r2"),
    }
    assert parse_rack_mapping(b"") == parse_rack_mapping(b"{}") == {}


@pytest.mark.parametrize(
    "wrong", [b"{", b"[]", b'{"g": 1}', b"\xff", b'{"g": {"b": {"rack": "/a//b"}}}']
)
def test_rack_mapping_that_makes_no_sense(wrong: bytes) -> None:
    with pytest.raises(CorruptData):
        parse_rack_mapping(wrong)
