import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.core.errors import CorruptData
from tailrace.core.metadata.bookie_service_info import (
    NETWORK_LOCATION,
    BookieServiceInfo,
    Endpoint,
    decode_service_info,
    encode_service_info,
    rpc_service_info,
)
from tailrace.core.metadata.network_location import NetworkLocation
from tailrace.protocol.ids import BookieId
from tests.unit.core.metadata.golden_nodes import golden_nodes


@pytest.mark.parametrize("port", [3481, 3482, 3483])
def test_real_registrations(port: int) -> None:
    bookie_id = BookieId(f"127.0.0.1:{port}")
    data = golden_nodes()[f"/ledgers/available/{bookie_id}"].data
    info = decode_service_info(data, bookie_id)
    assert info == rpc_service_info("127.0.0.1", port)
    assert encode_service_info(info) == data


def test_first_rpc_door_is_taken() -> None:
    web = Endpoint("httpserver", "h", 8080, "http")
    door = Endpoint("bookie", "h", 3181, "bookie-rpc", ("a",), ("e",))
    info = BookieServiceInfo((web, door), {"k": "v"})
    decoded = decode_service_info(encode_service_info(info), BookieId("b"))
    assert decoded == info
    assert decoded.rpc() == door
    assert BookieServiceInfo((web,)).rpc() is None


def test_place_is_a_property() -> None:
    info = BookieServiceInfo(properties={NETWORK_LOCATION: "/eu/r1"})
    assert info.location() == NetworkLocation("eu", "/eu/r1")
    assert rpc_service_info("h", 1).location() is None
    with pytest.raises(CorruptData, match="networkLocation: not a network location"):
        BookieServiceInfo(properties={NETWORK_LOCATION: "//"}).location()


def test_empty_data_means_the_id_is_the_address() -> None:
    info = decode_service_info(b"", BookieId("host:3181"))
    assert info.rpc() == Endpoint("bookie", "host", 3181, "bookie-rpc")
    for bad in ("host", "host:", ":1", "host:x"):
        with pytest.raises(CorruptData):
            decode_service_info(b"", BookieId(bad))


def test_cut_registration_is_corrupt() -> None:
    data = encode_service_info(rpc_service_info("127.0.0.1", 3181))
    for size in range(1, len(data)):
        with pytest.raises(CorruptData):
            decode_service_info(data[:size], BookieId("b:1"))


def test_a_registration_whose_words_are_not_text_is_corrupt() -> None:
    """A protobuf library hands out bytes then, and a place of bytes ended who asked for it."""
    place = {NETWORK_LOCATION: "/eu/r1"}
    door = Endpoint("bookie", "host", 3181, "bookie-rpc")
    data = encode_service_info(BookieServiceInfo((door,), place))
    for word in (b"host", b"/eu/", NETWORK_LOCATION.encode()):
        with pytest.raises(CorruptData, match="UTF-8"):
            decode_service_info(data.replace(word, b"\xff" + word[1:]), BookieId("b:1"))


@settings(max_examples=100)
@given(st.binary(min_size=1, max_size=60))
def test_random_bytes_are_corrupt_or_doors(data: bytes) -> None:
    try:
        decode_service_info(data, BookieId("b:1"))
    except CorruptData:
        return
