"""What a bookie's registration node says: where it can be reached, and where it stands.

The place and the largest frame are properties of ours; BookKeeper's clients ignore properties that
they do not know. Source: BookKeeper BookieServiceInfoSerde, BookieServiceInfoUtils (empty data:
from the id itself).
"""

from dataclasses import dataclass, field
from typing import Final, NamedTuple

from google.protobuf.message import DecodeError as ProtobufError

from tailrace.core.errors import CorruptData
from tailrace.core.metadata.network_location import NetworkLocation, parse_location
from tailrace.core.metadata.schemas import BookieServiceInfoFormat
from tailrace.core.runtime.decimal_text import INT32_MAX, decimal
from tailrace.protocol.bookkeeper.entry import (
    FRAME_BYTES_LIMIT,
    FRAME_OVERHEAD_BYTES,
    MAX_ENTRY_BYTES,
)
from tailrace.protocol.ids import BookieId

PORT_MAX: Final = (1 << 16) - 1
BOOKIE_RPC: Final = "bookie-rpc"
NETWORK_LOCATION: Final = "networkLocation"
"""The property with the place of a bookie, as /region/rack."""
FRAME_BYTES_MAX: Final = "nettyMaxFrameSizeBytes"
"""The property with the largest frame that a bookie takes."""


class Endpoint(NamedTuple):
    """One door of a bookie."""

    id: str
    host: str
    port: int
    protocol: str
    auth: tuple[str, ...] = ()
    extensions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class BookieServiceInfo:
    """All doors of a bookie and its free properties."""

    endpoints: tuple[Endpoint, ...] = ()
    properties: dict[str, str] = field(default_factory=dict)

    def rpc(self) -> Endpoint | None:
        """Return the first door that speaks BookKeeper's protocol."""
        return next((end for end in self.endpoints if end.protocol == BOOKIE_RPC), None)

    def location(self) -> NetworkLocation | None:
        """Return where the bookie stands, if it says so. Errors: CorruptData for no such path."""
        path = self.properties.get(NETWORK_LOCATION)
        try:
            return parse_location(path) if path else None
        except ValueError as error:
            raise CorruptData(f"{NETWORK_LOCATION}: {error}") from error

    def entry_bytes_max(self) -> int:
        """Return the largest body of an entry that the bookie takes.

        One that does not say takes what BookKeeper's bookies do by default.
        Errors: CorruptData for what is not a number.
        """
        text = self.properties.get(FRAME_BYTES_MAX)
        if text is None:
            return MAX_ENTRY_BYTES
        frame_bytes = decimal(text, INT32_MAX)
        if frame_bytes is None:
            raise CorruptData(f"{FRAME_BYTES_MAX}: {text!r} is not a number of bytes")
        return min(frame_bytes, FRAME_BYTES_LIMIT) - FRAME_OVERHEAD_BYTES


def rpc_service_info(host: str, port: int) -> BookieServiceInfo:
    """Return what a bookie with one door publishes."""
    return BookieServiceInfo((Endpoint("bookie", host, port, BOOKIE_RPC),))


def encode_service_info(info: BookieServiceInfo) -> bytes:
    """Return the data of a registration node."""
    message = BookieServiceInfoFormat()
    for end in info.endpoints:
        message.endpoints.add(**end._asdict())
    for key, value in info.properties.items():
        message.properties.add(key=key, value=value)
    return bytes(message.SerializeToString())


def decode_service_info(data: bytes, bookie_id: BookieId) -> BookieServiceInfo:
    """Read a registration node's data; empty means host:port as the id. Errors: CorruptData."""
    if not data:
        host, _, port = bookie_id.rpartition(":")
        number = decimal(port, PORT_MAX)
        if not host or number is None:
            raise CorruptData(f"bookie {bookie_id} is registered without an address")
        return rpc_service_info(host, number)
    message = BookieServiceInfoFormat()
    try:
        message.ParseFromString(data)
    except ProtobufError as error:
        raise CorruptData(f"registration of bookie {bookie_id}: {error}") from error
    endpoints = tuple(
        Endpoint(e.id, e.host, e.port, e.protocol, tuple(e.auth), tuple(e.extensions))
        for e in message.endpoints
    )
    return BookieServiceInfo(endpoints, {p.key: p.value for p in message.properties})
