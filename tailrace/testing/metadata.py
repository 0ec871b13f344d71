"""Is a broker there? One request by hand, so that no client library is needed.

Metadata where everybody may ask; ApiVersions over TLS and before a log-in.
"""

import socket
import struct
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ssl import SSLContext  # for those who want a secured broker

_METADATA = 3
_API_VERSIONS = 18
_VERSION = 1
_CORRELATION_ID = 0x7461696C
_RESPONSE_BYTES_MAX = 64 * 1024
"""A Metadata response without topics has a few dozen bytes, one of versions some hundred."""


def request() -> bytes:
    """Return a Metadata request for no topics, with its size in front. Source: KIP-4."""
    return _framed(_METADATA, _VERSION, struct.pack(">i", 0))  # no topics (null would be all)


def versions_request() -> bytes:
    """Return an ApiVersions request, which comes before a log-in. Source: KIP-35."""
    return _framed(_API_VERSIONS, 0, b"")


def _framed(api_key: int, version: int, body: bytes) -> bytes:
    client_id = b"tailrace-testing"
    header = struct.pack(">hhih", api_key, version, _CORRELATION_ID, len(client_id)) + client_id
    return struct.pack(">i", len(header) + len(body)) + header + body


def names_a_broker(response: bytes) -> bool:
    """Tell whether a response (without its size) answers `request` and names at least one broker.

    Shape: correlation id, then an array of brokers, of which only the length is looked at.
    """
    if len(response) < 8:
        return False
    correlation_id, brokers = struct.unpack_from(">ii", response)
    return bool(correlation_id == _CORRELATION_ID and brokers >= 1)


def names_versions(response: bytes) -> bool:
    """Tell whether a response (without its size) answers `versions_request` without an error."""
    if len(response) < 6:
        return False
    correlation_id, error = struct.unpack_from(">ih", response)
    return bool(correlation_id == _CORRELATION_ID and error == 0)


def lets_ask(host: str, port: int, timeout_s: float, context: "SSLContext | None") -> bool:
    """Ask once what is served, over TLS if there is a context; False as `answers` does."""
    try:
        with socket.create_connection((host, port), timeout_s) as connection:
            if context is None:
                return _answered(connection, versions_request(), names_versions)
            with context.wrap_socket(connection, server_hostname=host) as encrypted:
                return _answered(encrypted, versions_request(), names_versions)
    except (OSError, UnicodeError, struct.error):  # UnicodeError: a host that is not a name
        return False


def _answered(connection: socket.socket, asked: bytes, is_answer: Callable[[bytes], bool]) -> bool:
    """Send a request and read its answer. Errors: OSError, struct.error."""
    connection.sendall(asked)
    with connection.makefile("rb") as stream:
        (size,) = struct.unpack(">i", stream.read(4) or bytes(4))
        return 0 < size <= _RESPONSE_BYTES_MAX and is_answer(stream.read(size))


def answers(host: str, port: int, timeout_s: float) -> bool:
    """Ask once; False if nobody listens, hangs up, has not answered in time, or can be named so.

    Unit: seconds, for connecting and for each read.
    """
    try:
        with socket.create_connection((host, port), timeout_s) as connection:
            return _answered(connection, request(), names_a_broker)
    except (OSError, UnicodeError, struct.error):  # UnicodeError: a host that is no name
        return False
