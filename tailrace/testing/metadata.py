"""Is a broker there? One Metadata request by hand, so that no client library is needed."""

import socket
import struct

_METADATA = 3
_VERSION = 1
_CORRELATION_ID = 0x7461696C
_RESPONSE_BYTES_MAX = 64 * 1024
"""A Metadata response without topics has a few dozen bytes."""


def request() -> bytes:
    """Return a Metadata request for no topics, with its size in front. Source: KIP-4."""
    client_id = b"tailrace-testing"
    header = struct.pack(">hhih", _METADATA, _VERSION, _CORRELATION_ID, len(client_id)) + client_id
    body = struct.pack(">i", 0)  # an empty list: no topics (null would be all)
    return struct.pack(">i", len(header) + len(body)) + header + body


def names_a_broker(response: bytes) -> bool:
    """Tell whether a response (without its size) answers `request` and names at least one broker.

    Shape: correlation id, then an array of brokers, of which only the length is looked at.
    """
    if len(response) < 8:
        return False
    correlation_id, brokers = struct.unpack_from(">ii", response)
    return bool(correlation_id == _CORRELATION_ID and brokers >= 1)


def answers(host: str, port: int, timeout_s: float) -> bool:
    """Ask once; False if nobody listens, hangs up, has not answered in time, or can be named so.

    Unit: seconds, for connecting and for each read.
    """
    try:
        with socket.create_connection((host, port), timeout_s) as connection:
            connection.sendall(request())
            with connection.makefile("rb") as stream:
                (size,) = struct.unpack(">i", stream.read(4) or bytes(4))
                return 0 < size <= _RESPONSE_BYTES_MAX and names_a_broker(stream.read(size))
    except (OSError, UnicodeError, struct.error):  # UnicodeError: a host that is no name
        return False
