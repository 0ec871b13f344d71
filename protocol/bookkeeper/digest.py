"""The digest that a ledger's entries carry, and the key that a ledger's writer shows.

    CRC32   8 bytes (upper four zero)    CRC32C 4 bytes    HMAC 20 bytes (SHA-1)    DUMMY none

A digest covers the entry's first 32 bytes and its payload, not itself. CRC32 is DistributedLog's.
Source: reference BookKeeper 2.1, 2.4; org.apache.bookkeeper.proto.checksum.
"""

import hashlib
import hmac
from collections.abc import Callable, Iterable
from enum import Enum

import deflate

from tailrace.protocol.crc32c import crc32c
from tailrace.protocol.ids import Buffer


class DigestType(Enum):
    """How a ledger's entries are checked; the numbers are those of the ledger metadata."""

    CRC32 = 1
    HMAC = 2
    CRC32C = 3
    DUMMY = 4


class Digest:
    """The digest of one ledger's entries.

    Cost: one pass over the parts, nothing joined. Measured: 0.5 us per 16 KiB for CRC32.
    """

    __slots__ = ("compute", "size", "type")

    type: DigestType
    size: int
    """Bytes of a digest."""
    compute: Callable[[Iterable[Buffer]], bytes]
    """Return the digest over the parts, one after the other."""

    def __init__(self, type: DigestType, password: bytes = b"") -> None:  # noqa: A002  BookKeeper's word
        self.type = type
        self.size = _SIZES[type]
        self.compute = _hmac(password) if type is DigestType.HMAC else _COMPUTE[type]


def ledger_master_key(password: bytes) -> bytes:
    """Return the 20 bytes that a ledger's writer shows to bookies."""
    return hashlib.sha1(b"ledger" + password).digest()  # BookKeeper's wire format, not our choice


def _crc32(parts: Iterable[Buffer]) -> bytes:
    # Of the libraries that have it, libdeflate's keeps the interpreter while it reads. What others
    # give away for each 16 KiB has to be taken back from who took it: 18 us beside a busy thread.
    value = 0
    for part in parts:
        value = deflate.crc32(part, value)
    return value.to_bytes(8, "big")


def _crc32c(parts: Iterable[Buffer]) -> bytes:
    value = 0
    for part in parts:
        value = crc32c(part, value)
    return value.to_bytes(4, "big")


def _dummy(parts: Iterable[Buffer]) -> bytes:
    return b""


def _hmac(password: bytes) -> Callable[[Iterable[Buffer]], bytes]:
    keyed = hmac.new(hashlib.sha1(b"mac" + password).digest(), digestmod=hashlib.sha1)

    def compute(parts: Iterable[Buffer]) -> bytes:
        mac = keyed.copy()
        for part in parts:
            mac.update(part)
        return mac.digest()

    return compute


_SIZES = {
    DigestType.CRC32: 8,
    DigestType.HMAC: 20,
    DigestType.CRC32C: 4,
    DigestType.DUMMY: 0,
}
_COMPUTE: dict[DigestType, Callable[[Iterable[Buffer]], bytes]] = {
    DigestType.CRC32: _crc32,
    DigestType.CRC32C: _crc32c,
    DigestType.DUMMY: _dummy,
}
