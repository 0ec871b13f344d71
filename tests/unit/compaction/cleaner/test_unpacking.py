import random
from collections.abc import Sequence

import pytest

from tailrace.compaction.cleaner.block import Block
from tailrace.compaction.cleaner.errors import CorruptBatch
from tailrace.compaction.cleaner.headers import Headers
from tailrace.compaction.cleaner.unpacking import unpack
from tailrace.protocol.compression import DECOMPRESSED_BYTES_MAX, Codec, compress
from tailrace.protocol.records.record import Record, build_batch

HEAD = memoryview(build_batch([Record(0, 5, key=b"k", value=b"v")]))


def unpacked(payloads: Sequence[tuple[Codec, bytes]]) -> Block:
    headers = Headers.of([HEAD] * len(payloads))
    headers.change("attributes", [int(codec) for codec, _ in payloads])  # type: ignore[arg-type]
    return unpack(Block.of([payload for _, payload in payloads]), headers)


@pytest.mark.parametrize("codecs", [[each] for each in Codec] + [list(Codec)])
@pytest.mark.parametrize("repeats", [1, 100, 3000])
def test_payloads_lie_one_behind_the_other(codecs: list[Codec], repeats: int) -> None:
    rnd = random.Random(7)
    plains = [rnd.randbytes(rnd.randrange(1, 300)) * repeats for _ in range(40)]
    chosen = [codecs[at % len(codecs)] for at in range(len(plains))]
    found = unpacked(
        [(codec, compress(codec, each)) for codec, each in zip(chosen, plains, strict=True)]
    )
    assert found.data == b"".join(plains)
    assert [bytes(found.batch(at)) for at in range(len(plains))] == plains


def test_what_cannot_be_unpacked_is_named() -> None:
    good = (Codec.LZ4, compress(Codec.LZ4, b"value" * 1000))
    with pytest.raises(CorruptBatch, match="lz4") as raised:
        unpacked([good, good, (Codec.LZ4, good[1][:-5]), good])
    assert raised.value.index == 2


def test_the_limit_is_that_of_one_batch() -> None:
    largest = (Codec.ZSTD, compress(Codec.ZSTD, bytes(DECOMPRESSED_BYTES_MAX)))
    found = unpacked([largest, largest])
    assert found.sizes.tolist() == [DECOMPRESSED_BYTES_MAX] * 2
    longer = (Codec.ZSTD, compress(Codec.ZSTD, bytes(DECOMPRESSED_BYTES_MAX + 1)))
    with pytest.raises(CorruptBatch, match=str(DECOMPRESSED_BYTES_MAX)) as raised:
        unpacked([largest, longer])
    assert raised.value.index == 1
