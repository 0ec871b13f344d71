"""What a client encodes and decodes by hand, against protobuf."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.protocol.distributedlog.dlsn import DLSN
from tailrace.protocol.proxy.checksum import request_checksum
from tailrace.protocol.proxy.common_pb2 import Dlsn
from tailrace.protocol.proxy.write_proxy_pb2 import WriteStreamRequest
from tailrace.proxy.client.messages import dlsn_message, dlsns_of, records_request


@pytest.mark.parametrize(
    "sizes", [[0], [1], [127, 128], [5, 5, 0, 5], [16_383, 16_384, 3], [2_097_152, 1], [7] * 1_000]
)
def test_records_are_encoded_as_protobuf_does(sizes: list[int]) -> None:
    payloads = [bytes([at % 256]) * size for at, size in enumerate(sizes)]
    request = WriteStreamRequest()
    request.records.id = len(sizes)
    request.records.payloads.extend(payloads)
    request.records.crc32 = request_checksum("étoile", *payloads)
    assert WriteStreamRequest.FromString(records_request("étoile", len(sizes), payloads)) == request


@given(
    st.integers(0, 5),
    st.lists(st.tuples(st.integers(1, 3), st.integers(0, 3), st.integers(0, 40)), unique=True).map(
        sorted
    ),
    st.integers(1, 300),
)
def test_positions_are_those_of_the_messages(
    unknown: int, places: list[tuple[int, int, int]], more: int
) -> None:
    dlsns = [*[DLSN(0, 0, 0)] * unknown, *(DLSN(*each) for each in places)]
    dlsns += [DLSN(4, 0, slot) for slot in range(7, 7 + more)]
    assert dlsns_of([dlsn_message(each) for each in dlsns]) == dlsns
    assert dlsns_of([Dlsn()] * unknown) == dlsns[:unknown]
