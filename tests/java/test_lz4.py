"""Which LZ4 frames a produce may bring: those that Kafka's own reader reads whole."""

import struct
from collections.abc import Iterator
from random import Random

import lz4.frame
import pytest

from tailrace.protocol.compression import Codec, decompress
from tailrace.protocol.errors import BadValue
from tailrace.protocol.lz4_frame import frame_end
from tests.java.peers import LinePeer

pytestmark = pytest.mark.java

FRAMES = 400
SIZES = (0, 1, 100, 65_536, 65_537, 300_000)
SKIPPABLE = struct.pack("<II", 0x184D2A50, 3) + b"abc"


class Lz4Peer(LinePeer):
    """One JVM with Kafka's reader; see clients/Lz4Peer.java."""

    def __init__(self) -> None:
        super().__init__("clients", "Lz4Peer")

    def read(self, data: bytes) -> bytes | None:
        """Return what Java reads; None where it fails."""
        answer = self.line(data.hex())
        assert answer[:1] in {"=", "!"}, answer
        return bytes.fromhex(answer[1:]) if answer[0] == "=" else None


@pytest.fixture(scope="module")
def peer() -> Iterator[Lz4Peer]:
    peer = Lz4Peer()
    yield peer
    peer.close()


def fault(data: bytes) -> str | None:
    """Return why a frame is not taken."""
    try:
        frame_end(memoryview(data))
    except BadValue as error:
        return str(error)
    return None


def some_frame(random: Random) -> tuple[bytes, bytes]:
    """A frame as some LZ4 library may write it, and what is in it."""
    plain = random.choice([random.randbytes, bytes])(random.choice(SIZES))
    packed = lz4.frame.compress(
        plain,
        block_linked=random.random() < 0.4,
        block_size=random.choice([4, 5, 6, 7]),
        block_checksum=random.random() < 0.3,
        content_checksum=random.random() < 0.3,
        store_size=random.random() < 0.3,
    )
    return packed, plain


def test_what_is_taken_is_what_java_reads(peer: Lz4Peer) -> None:
    random = Random(160_4711)
    taken = 0
    for _ in range(FRAMES):
        packed, plain = some_frame(random)
        if random.random() < 0.1:
            packed = SKIPPABLE + packed
        if not packed.startswith(SKIPPABLE):
            assert decompress(Codec.LZ4, packed) == plain, "an LZ4 library reads all of it"
        is_read = peer.read(packed) == plain
        why = fault(packed)
        assert (why is None) == is_read, (why, packed[:40].hex(), len(packed))
        taken += is_read
    assert FRAMES // 5 < taken < FRAMES, "some of either kind"


def test_an_empty_block_ends_the_frame_for_java(peer: Lz4Peer) -> None:
    block = struct.pack("<I", 3 | 1 << 31) + b"abc"
    head, end = lz4.frame.compress(b"", block_linked=False, store_size=False)[:7], bytes(4)
    frame = head + block + struct.pack("<I", 1 << 31) + block + end
    assert decompress(Codec.LZ4, frame) == b"abcabc"
    assert peer.read(frame) == b"abc"
    assert fault(frame) is not None


def test_what_lies_behind_the_first_frame_is_left_out(peer: Lz4Peer) -> None:
    """Java never sees it, and so takes a frame with padding behind it."""
    random = Random(160_4712)
    for _ in range(FRAMES // 4):
        first, plain = some_frame(random)
        more = random.choice([some_frame(random)[0], SKIPPABLE, b"abc", bytes(9)])
        assert decompress(Codec.LZ4, first + more) == plain
        assert fault(first + more) == fault(first)
        if fault(first) is None:
            assert frame_end(memoryview(first + more)) == len(first)
        assert peer.read(first + more) == peer.read(first)
