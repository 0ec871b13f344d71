"""Kafka's codecs by their number, with a bound on what may come out.

A peer's compressed bytes are hostile: a few KiB can claim gigabytes. A decompressor stops at
`bytes_max` and raises BadLength; bytes that are not the codec's raise BadValue; nothing else.

    gzip    RFC 1952 members, at most STREAMS_MAX; padding behind them is left out
    snappy  read: Java's xerial stream and librdkafka's raw block; written: xerial, all read it
    lz4     the first LZ4 frame; written with independent blocks, which Java's reader demands
    zstd    one or more frames

Source: reference Kafka 3.3; org.apache.kafka.common.compress.
"""

import struct
import zlib
from collections.abc import Callable
from enum import IntEnum
from mmap import mmap
from typing import cast

import cramjam
import lz4.block
import lz4.frame
from isal import isal_zlib

from tailrace.protocol.errors import BadLength, BadValue
from tailrace.protocol.ids import Buffer

DECOMPRESSED_BYTES_MAX = 64 * 1024 * 1024
STREAMS_MAX = 256
"""gzip members that may follow each other: every one costs a copy of what follows it.

Producers write one. A megabyte of 50,000 empty ones would take seconds.
"""

GZIP_LEVEL, LZ4_LEVEL, ZSTD_LEVEL = -1, 9, 3
"""Kafka's defaults."""

_GZIP_ERROR = cast("type[Exception]", isal_zlib.error)  # its stub says an instance
_GZIP_WINDOW = 31  # zlib's way to say "with a gzip header and trailer"
_GZIP_HEAD = b"\x1f\x8b\x08"
_GZIP_AROUND = 18
"""Bytes of a member's header and trailer: what is shorter or begins otherwise is padding."""
_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = struct.Struct(">8sii")
_XERIAL_BLOCK_BYTES = 32 * 1024
_SNAPPY_RATIO_MAX = 22
"""Bytes that one byte of a block can stand for: a copy takes three bytes and gives 64."""
_XERIAL_BLOCK_COST = 256
"""What a block counts as at least: a microsecond each, and 40,000 of one byte fit 256 KiB."""
_LZ4_GUESS = 8  # a frame of a higher ratio is read in several parts
_LZ4_ROOM_MIN, _LZ4_ROOM_MAX = 64 * 1024, 8 * 1024 * 1024
_LZ4_PLAIN_HEAD = bytes.fromhex("04224d18604082")
"""Of a frame of independent blocks of 64 KiB at most, without checksums or lengths."""
_LZ4_HEAD = struct.Struct("<7sI")
"""With the length of the block behind it."""
_LZ4_HEAD_AND_FOUR = struct.Struct("<7sII")
"""And the first four bytes of the block, as a number."""
_LZ4_END = bytes(4)
_LZ4_AROUND_BLOCK = _LZ4_HEAD.size + len(_LZ4_END)
_LZ4_BLOCK_BYTES_MAX = 64 * 1024
_ZSTD_MAPPED_MIN = 1024 * 1024
_ZSTD_GUESS = 16  # first guess of the ratio; room that stays unused costs no memory


class Codec(IntEnum):
    """Kafka's codec ids, as in a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


_LZ4 = int(Codec.LZ4)  # two enums take longer to compare


def compress(codec: int, data: Buffer, level: int | None = None) -> bytes:
    """Return `data` in the form that every Kafka client reads.

    `level`: as Kafka's `compression.*.level`, None for its default; snappy has none.
    """
    return _COMPRESS[Codec(codec)](data, level)


def decompress(codec: int, data: Buffer, bytes_max: int = DECOMPRESSED_BYTES_MAX) -> Buffer:
    """Return what `data` holds.

    Errors: BadValue (not this codec's bytes, or cut), BadLength (more than `bytes_max` come out).
    Cost: one copy; codec 0 returns `data` itself.
    """
    function = _DECOMPRESS.get(codec)
    if function is None:
        raise BadValue(f"codec {codec} is none of Kafka's")
    return function(data, bytes_max)


def decompress_into(codec: int, data: memoryview, room: memoryview) -> int:
    """Put what `data` holds at the beginning of `room`, which is writable; return its size.

    What lies behind that in `room` may change as well. Errors: as `decompress`; BadLength also if
    `room` is too small. Cost: for what clients make of up to 64 KiB with lz4 half of
    `decompress` and a copy; for the rest as much.
    """
    if codec == _LZ4 and len(data) >= _LZ4_HEAD_AND_FOUR.size:
        head, size, four = _LZ4_HEAD_AND_FOUR.unpack_from(data)
        is_one_block = head == _LZ4_PLAIN_HEAD and size == len(data) - _LZ4_AROUND_BLOCK
        # The library looks whether a block that it cannot read has its length before it, one that
        # fits: other readers of frames do not, so it gets none that begins with such a number.
        if is_one_block and four > _LZ4_BLOCK_BYTES_MAX and data[-4:] == _LZ4_END:
            try:
                return cramjam.lz4.decompress_block_into(
                    data[_LZ4_HEAD.size : -4], room[:_LZ4_BLOCK_BYTES_MAX], _LZ4_BLOCK_BYTES_MAX
                )
            except cramjam.DecompressionError:
                pass  # it is wrong or there is no room for all that may come: told below
    plain = decompress(codec, data, min(len(room), DECOMPRESSED_BYTES_MAX))
    room[: len(plain)] = plain
    return len(plain)


def _decompress_none(data: Buffer, bytes_max: int) -> Buffer:
    if len(data) > bytes_max:
        raise BadLength(f"{len(data)} bytes, above the limit of {bytes_max}")
    return data


def _compress_none(data: Buffer, _level: int | None) -> bytes:
    return bytes(data)


def _compress_gzip(data: Buffer, level: int | None) -> bytes:
    packer = zlib.compressobj(GZIP_LEVEL if level is None else level, wbits=_GZIP_WINDOW)
    return packer.compress(data) + packer.flush()


def _decompress_gzip(data: Buffer, bytes_max: int) -> bytes:
    parts: list[bytes] = []
    size = 0
    rest: Buffer = data
    try:
        for _ in range(STREAMS_MAX):
            member = isal_zlib.decompressobj(wbits=_GZIP_WINDOW)
            parts.append(member.decompress(rest, bytes_max - size + 1))
            size += len(parts[-1])
            _check_size(size, bytes_max)
            if not member.eof:
                raise BadValue("gzip: the stream is cut")
            rest = member.unused_data
            if len(rest) < _GZIP_AROUND or not rest.startswith(_GZIP_HEAD):
                return parts[0] if len(parts) == 1 else b"".join(parts)
    except _GZIP_ERROR as error:
        raise BadValue(f"gzip: {error}") from None
    raise BadValue(f"gzip: more than {STREAMS_MAX} members")


def _compress_snappy(data: Buffer, _level: int | None) -> bytes:
    out = [_XERIAL_HEADER.pack(_XERIAL_MAGIC, 1, 1)]
    view = memoryview(data)
    for at in range(0, len(view), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(view[at : at + _XERIAL_BLOCK_BYTES]))
        out += (len(block).to_bytes(4, "big"), block)
    return b"".join(out)


def _decompress_snappy(data: Buffer, bytes_max: int) -> bytes:
    view = memoryview(data)
    if view[:8] != _XERIAL_MAGIC:
        return _snappy_block(view, bytes_max)
    parts: list[bytes] = []
    size, at = 0, _XERIAL_HEADER.size
    if len(view) < at:
        raise BadValue("snappy: the xerial header is cut")
    while at < len(view):
        _check_size(len(parts) * _XERIAL_BLOCK_COST, bytes_max)
        end = at + 4 + int.from_bytes(view[at : at + 4], "big")
        if end > len(view) or end <= at + 4:
            raise BadValue("snappy: a xerial block is empty or cut")
        parts.append(_snappy_block(view[at + 4 : end], bytes_max - size))
        size += len(parts[-1])
        at = end
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _snappy_block(block: memoryview, bytes_max: int) -> bytes:
    try:
        claim = cramjam.snappy.decompress_raw_len(block)
        _check_size(claim, bytes_max)
        if claim > _SNAPPY_RATIO_MAX * len(block):  # the library takes as much at once
            raise BadValue(f"snappy: a block of {len(block)} bytes claims {claim}")
        return bytes(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as error:
        raise BadValue(f"snappy: {error}") from None


def _compress_lz4(data: Buffer, level: int | None) -> bytes:
    high = 0 if level in (None, LZ4_LEVEL) else level  # Kafka's default is its fast compressor
    packed: bytes = lz4.frame.compress(
        data, compression_level=high, block_linked=False, store_size=False
    )
    return packed


def _decompress_lz4(data: Buffer, bytes_max: int) -> bytes:
    rest = memoryview(data)
    try:
        block = _only_lz4_block(rest)
        if block is not None:
            plain: bytes = lz4.block.decompress(block, uncompressed_size=_LZ4_BLOCK_BYTES_MAX)
            _check_size(len(plain), bytes_max)
            return plain
        return _read_lz4_frame(rest, bytes_max)
    except (RuntimeError, ValueError, EOFError, lz4.block.LZ4BlockError) as error:
        raise BadValue(f"lz4: {error}") from None


def _only_lz4_block(data: memoryview) -> memoryview | None:
    """Return the compressed block of a frame that holds it and nothing else; None: of another.

    That is what clients make of up to 64 KiB: read as a block it takes a quarter less time. A block
    longer than its frame allows is left to the frame's reader, which refuses it as Java's does.
    """
    size = len(data) - _LZ4_AROUND_BLOCK
    if not 0 < size <= _LZ4_BLOCK_BYTES_MAX:
        return None
    if _LZ4_HEAD.unpack_from(data) != (_LZ4_PLAIN_HEAD, size):
        return None
    return data[_LZ4_HEAD.size : -4] if data[-4:] == _LZ4_END else None


def _read_lz4_frame(data: memoryview, bytes_max: int) -> bytes:
    """Return what comes out of the first frame.

    The first part has room for what most frames hold, each later one as much as all before it: the
    library takes a part's room from the system at once and copies what came out, and 64 MiB cost
    7 us a call, four times what a batch of 16 KB takes (2026-11-21).
    """
    parts: list[bytes] = []
    size = 0
    context = lz4.frame.create_decompression_context()
    room = max(_LZ4_ROOM_MIN, _LZ4_GUESS * len(data))
    while True:
        room = min(room, _LZ4_ROOM_MAX, bytes_max - size + 1)
        part, read, is_end = lz4.frame.decompress_chunk(context, data, max_length=room)
        parts.append(part)
        size += len(part)
        data = data[read:]
        _check_size(size, bytes_max)
        if is_end:
            return parts[0] if len(parts) == 1 else b"".join(parts)
        if len(part) < room:
            raise BadValue("lz4: the frame is cut")
        room = size


def _compress_zstd(data: Buffer, level: int | None) -> bytes:
    return bytes(cramjam.zstd.compress(data, ZSTD_LEVEL if level is None else level))


def _decompress_zstd(data: Buffer, bytes_max: int) -> Buffer:
    """Decompress into a buffer that grows fourfold: Java's frames do not say how long they are.

    A large one is mapped: `bytearray` would fill 64 MiB with zeros, and keep all other threads
    from running meanwhile; pages that are mapped come as the library needs them, which lets them.
    """
    room = min(bytes_max, max(1024, _ZSTD_GUESS * len(data)))
    while True:
        out = bytearray(room) if room < _ZSTD_MAPPED_MIN else mmap(-1, room)
        try:
            size = cramjam.zstd.decompress_into(data, out)
        except cramjam.DecompressionError as error:
            if "whole buffer" not in str(error):
                raise BadValue(f"zstd: {error}") from None
        else:
            if isinstance(out, mmap):
                return memoryview(out)[:size]
            del out[size:]
            return out
        _check_size(room + 1, bytes_max)
        room = min(bytes_max, 4 * room)


def _check_size(size: int, bytes_max: int) -> None:
    if size > bytes_max:
        raise BadLength(f"more than {bytes_max} bytes come out of a compressed batch")


_COMPRESS: dict[Codec, Callable[[Buffer, int | None], bytes]] = {
    Codec.NONE: _compress_none,
    Codec.GZIP: _compress_gzip,
    Codec.SNAPPY: _compress_snappy,
    Codec.LZ4: _compress_lz4,
    Codec.ZSTD: _compress_zstd,
}
_DECOMPRESS: dict[int, Callable[[Buffer, int], Buffer]] = {
    Codec.NONE: _decompress_none,
    Codec.GZIP: _decompress_gzip,
    Codec.SNAPPY: _decompress_snappy,
    Codec.LZ4: _decompress_lz4,
    Codec.ZSTD: _decompress_zstd,
}
