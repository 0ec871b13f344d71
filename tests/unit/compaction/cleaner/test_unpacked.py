import os
import random

import pytest

from compaction.cleaner.unpacked import Unpacked
from protocol.compression import DECOMPRESSED_BYTES_MAX, Codec, compress, decompress
from protocol.errors import BadLength, DecodeError


@pytest.mark.parametrize("packed_bytes", [0, 1000, 10_000_000])
def test_payloads_of_all_codecs_lie_one_behind_the_other(packed_bytes: int) -> None:
    rnd = random.Random(7)
    plains = [rnd.randbytes(rnd.randrange(3000)) * rnd.randrange(100) for _ in range(60)]
    unpacked, ends = Unpacked(packed_bytes), []
    for at, plain in enumerate(plains):
        codec = list(Codec)[at % len(Codec)]
        unpacked.add(codec, compress(codec, plain))
        ends.append(unpacked.size_bytes)
    assert unpacked.data == b"".join(plains)
    assert [b - a for a, b in zip([0, *ends], ends, strict=False)] == [*map(len, plains)]


def test_what_is_refused_adds_nothing() -> None:
    unpacked, plain = Unpacked(100), os.urandom(5000)
    unpacked.add(Codec.LZ4, compress(Codec.LZ4, plain))
    with pytest.raises(DecodeError):
        unpacked.add(Codec.LZ4, compress(Codec.LZ4, plain)[:-5])
    unpacked.add(Codec.NONE, b"end")
    assert unpacked.data == plain + b"end"


def test_the_limit_is_that_of_one_batch() -> None:
    largest = compress(Codec.ZSTD, bytes(DECOMPRESSED_BYTES_MAX))
    unpacked = Unpacked(0)
    unpacked.add(Codec.ZSTD, largest)
    assert unpacked.data == decompress(Codec.ZSTD, largest)
    with pytest.raises(BadLength):
        unpacked.add(Codec.ZSTD, compress(Codec.ZSTD, bytes(DECOMPRESSED_BYTES_MAX + 1)))
    assert unpacked.size_bytes == DECOMPRESSED_BYTES_MAX
