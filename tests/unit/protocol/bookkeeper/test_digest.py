import hashlib
import hmac
import random
import zlib

import pytest
from hypothesis import given

from tailrace.protocol.bookkeeper.digest import Digest, DigestType, ledger_master_key
from tailrace.protocol.crc32c import crc32c
from tailrace.protocol.ids import Buffer
from tests.strategies import pieces, small_bytes


def test_master_keys_of_the_reference() -> None:
    assert ledger_master_key(b"pw").hex() == "2aa226ba095b6969a64871977693b14671710d76"
    assert ledger_master_key(b"").hex() == "850bf1071c5e3d8c24235676f8816ae0cbe2f14f"


@pytest.mark.parametrize("kind", list(DigestType))
@given(parts=pieces(small_bytes))
def test_a_digest_over_parts_is_that_over_the_whole(
    kind: DigestType, parts: tuple[Buffer, ...]
) -> None:
    whole = b"".join(parts)
    key = hashlib.sha1(b"macpw").digest()
    expected = {
        DigestType.CRC32: zlib.crc32(whole).to_bytes(8, "big"),
        DigestType.CRC32C: crc32c(whole).to_bytes(4, "big"),
        DigestType.HMAC: hmac.digest(key, whole, "sha1"),
        DigestType.DUMMY: b"",
    }[kind]
    digest = Digest(kind, b"pw")
    assert digest.compute(parts) == expected
    assert digest.compute(parts) == expected  # a digest has no state
    assert digest.size == len(expected)


@pytest.mark.parametrize("size", [5119, 5120, 5121, 10_240, 16_384, 65_536, 65_537, 200_000])
def test_a_long_part_is_digested_in_pieces_as_in_one(size: int) -> None:
    whole = random.Random(size).randbytes(size)
    digest = Digest(DigestType.CRC32)
    for parts in ((whole,), (b"head", memoryview(bytearray(whole))), (whole, whole)):
        assert digest.compute(parts) == zlib.crc32(b"".join(parts)).to_bytes(8, "big")
