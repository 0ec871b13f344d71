"""What a client encodes by hand, against protobuf."""

import pytest

from tailrace.protocol.proxy.checksum import request_checksum
from tailrace.protocol.proxy.write_proxy_pb2 import WriteStreamRequest
from tailrace.proxy.client.messages import records_request


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
