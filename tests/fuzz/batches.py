"""Record batches: as they are produced, and as they lie in a log."""

import struct
from collections.abc import Iterator
from typing import Any

import numpy as np
from librt.strings import BytesWriter

from tailrace.compaction.cleaner.block import Block
from tailrace.compaction.cleaner.columns import read_columns
from tailrace.compaction.cleaner.errors import CorruptBatch
from tailrace.compaction.cleaner.headers import read_headers
from tailrace.compaction.restoring import errors as restoring
from tailrace.compaction.restoring.fold import Aborted, Progress, fold, next_offset
from tailrace.compaction.restoring.records import take_batch
from tailrace.protocol.compression import Codec, compress, decompress, decompress_into
from tailrace.protocol.errors import DecodeError, ProtocolError
from tailrace.protocol.lz4_frame import frame_end
from tailrace.protocol.records import loops, record_loops
from tailrace.protocol.records.batch import (
    HEADER_SIZE,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    TRANSACTIONAL,
    read_header,
    split_batches,
    stamp_crc,
    verify_crc,
)
from tailrace.protocol.records.control import EndTransaction, build_marker, read_marker
from tailrace.protocol.records.recompress import StoredAs, recompress
from tailrace.protocol.records.record import Producer, Record, build_batch, iter_records, payload_of
from tailrace.protocol.records.times import first_since, newest_from
from tailrace.protocol.records.validate import UNBOUNDED_MS, InvalidBatch, ProduceRules, check_batch
from tests.fuzz.target import Target

NOW_MS = 1_700_000_000_000
_COMPACTED, _APPEND_TIME, _NO_ZSTD, _OLD_REFUSED, _NEW_TAKEN, _AS_IT_CAME = (
    1 << n for n in range(6)
)
_OUT_MAX = 256 * 1024
"""What may come out of a codec here: so much that no limit of a byte in hides behind it."""


# ---- produced: a byte of rules, then the batch; its length and CRC are made right, unless asked


def _produced(data: bytes) -> Any:
    flags, batch = (data[0], bytearray(data[1:])) if data else (0, bytearray())
    if not flags & _AS_IT_CAME:
        _repair(batch)
    rules = ProduceRules(
        max_message_bytes=1 << 20,
        compacted=bool(flags & _COMPACTED),
        timestamp_before_max_ms=1000 if flags & _OLD_REFUSED else UNBOUNDED_MS,
        timestamp_after_max_ms=UNBOUNDED_MS if flags & _NEW_TAKEN else 3_600_000,
        log_append_time=bool(flags & _APPEND_TIME),
        zstd_allowed=not flags & _NO_ZSTD,
    )
    header = check_batch(batch, rules, NOW_MS)
    if header.codec:
        assert len(recompress(batch, header, StoredAs(Codec.NONE, None))) >= HEADER_SIZE
    else:  # a compressed one may be taken by its fields alone, as Kafka does
        taken = take_batch(header, memoryview(batch), {})
        assert taken.records == header.record_count, "what is taken is not what is read"
    return header


def _repair(batch: bytearray) -> None:
    if len(batch) < HEADER_SIZE:
        return
    batch[8:12] = (len(batch) - LOG_OVERHEAD).to_bytes(4, "big")
    if batch[16] == 2:
        stamp_crc(batch)


_HEADERS = (("name", b"x"), ("none", None))


def batches() -> Iterator[bytes]:
    """Yield batches of every kind."""
    records = [
        Record(
            0, NOW_MS, key=b"key", value=b"value" * 20, headers=(("name", b"x"), ("none", None))
        ),
        Record(1, NOW_MS + 5, key=b"key", value=None),
        Record(2, NOW_MS - 1, key=b"k" * 70, value=b""),
    ]
    producer = Producer(5, 1, 9)
    for codec in Codec:
        yield bytes(build_batch(records, codec))
        yield bytes(build_batch(records[:1], codec, producer=producer))
    yield bytes(build_batch([Record(0, 0, value=b"v"), Record(1, NOW_MS << 10, value=b"v")]))
    yield bytes(build_batch(records, producer=producer, attributes=TRANSACTIONAL))
    yield bytes(build_batch(records, attributes=LOG_APPEND_TIME))
    yield bytes(build_batch([*records, Record(900, NOW_MS, key=b"", value=b"x" * 300)]))
    yield bytes(build_batch([Record(n, NOW_MS, key=b"%04d" % n, value=b"v") for n in range(30)]))
    for committed in (False, True):
        yield bytes(build_marker(5, 1, EndTransaction(committed, 3), NOW_MS))


def _produced_seeds() -> Iterator[bytes]:
    for batch in batches():
        for flags in (0, _COMPACTED, _APPEND_TIME, _OLD_REFUSED, _NO_ZSTD | _NEW_TAKEN):
            yield bytes((flags,)) + batch


# ---- stored: what reads the records of a log agrees with what reads them one by one


def _stored(data: bytes) -> list[Record]:
    batch = bytearray(data)
    _repair(batch)
    header, payload = payload_of(batch, _OUT_MAX)
    records = list(iter_records(batch, _OUT_MAX))
    if not header.is_log_append_time:
        times = [each.timestamp for each in records]
        assert newest_from(header, payload, -(1 << 63)) == max([-1, *times]), "newest time"
        if times:
            found = first_since(header, payload, -(1 << 63), -(1 << 63))
            assert found == (records[0].offset, times[0]), "the first of any time"
    changes: dict[bytes, bytes | None] = {}
    taken = take_batch(header, memoryview(batch), changes)
    assert taken.records == len(records)
    assert changes == {r.key: r.value for r in records if r.key is not None}, "keys, values"
    _compare_columns(batch, records)
    return records


def _compare_columns(batch: bytearray, records: list[Record]) -> None:
    block = Block(bytes(batch), np.array([0]), np.array([len(batch)]))
    last = read_header(batch).last_offset
    header = read_header(batch)
    base, last = header.base_offset, header.last_offset
    offsets = [each.offset for each in records]
    is_sound = offsets == sorted(set(offsets)) and all(base <= each <= last for each in offsets)
    if not is_sound:
        offsets = list(range(base, base + len(records)))
    try:
        found = read_columns(block, read_headers(block))
    except CorruptBatch:
        assert not is_sound, "the cleaner does not read it"
        assert len(records) > last - base + 1, "it has an offset for each"
        return
    assert found.offset.tolist() == offsets, "offsets"
    assert found.timestamp.tolist() == [each.timestamp for each in records], "timestamps"
    sizes = [-1 if each.key is None else len(each.key) for each in records]
    assert found.key_size.tolist() == sizes, "keys"
    assert found.has_value.tolist() == [each.value is not None for each in records], "values"


def _stored_bytes(records: list[Record]) -> bytes | None:
    offsets = [each.offset for each in records]
    if not records or offsets != sorted(set(offsets)) or offsets[-1] - offsets[0] >= 1 << 31:
        return None
    is_appended = bool(records[0].timestamp_type)
    times = {each.timestamp for each in records}
    if is_appended and len(times) > 1:
        return None
    return bytes(
        build_batch(
            records,
            base_offset=offsets[0],
            attributes=LOG_APPEND_TIME if is_appended else 0,
        )
    )


# ---- the loops over records: what is compiled does what its source does
#      (flags, count, three numbers of 8 bytes, records)

_LOOPS = struct.Struct(">BBqqq")


def _walked(data: bytes) -> Any:
    how, count, base, oldest, newest = _LOOPS.unpack(data[: _LOOPS.size].ljust(_LOOPS.size, b"\0"))
    records = data[_LOOPS.size :]

    def walk(form: Any) -> Any:
        filled = BytesWriter()
        changes: dict[bytes, bytes | None] = {}
        return (
            form.check(records, count, base, oldest, newest, how),
            form.scan(records, count, base, oldest, newest & 0xFFFF),
            form.fill(filled, records, 0, len(records), count),
            filled.getvalue(),
            form.fold(records, 0, count, changes),
            changes,
        )

    plain, compiled = walk(record_loops), walk(loops)
    assert plain == compiled, "compiled it is something else"
    return plain[0]


def _walked_seeds() -> Iterator[bytes]:
    for number, batch in enumerate(batches()):
        header, payload = payload_of(batch)
        head = (number, header.record_count, header.base_timestamp, 0, NOW_MS)
        yield _LOOPS.pack(*head) + bytes(payload)[:1900]


# ---- what a log gives out: headers, cuts, markers; and a restore's fold of it


def _answered(data: bytes) -> Any:
    found = []
    for at, end in split_batches(data):
        header = read_header(data, at)
        found.append(header)
        if header.is_control:
            read_marker(data[at:end])
        verify_crc(data, at)
    return found


def _folded(data: bytes) -> Any:
    changes: dict[bytes, bytes | None] = {}
    fold(Progress(start=1, end=900, position=1), data, [], changes, "here")
    progress = Progress(start=0, end=1 << 40, position=0)
    end = next_offset(data, "here")
    fold(progress, data, [Aborted(5, 0)], changes, "here")
    assert progress.is_done or progress.position >= (end or 0), "it went back"
    return changes


def _logs() -> Iterator[bytes]:
    offset, whole = 0, bytearray()
    for batch in batches():
        yield batch
        stamped = bytearray(batch)
        stamped[:8] = offset.to_bytes(8, "big")
        offset = read_header(stamped).last_offset + 1
        whole += stamped
        if len(whole) > 1500:
            yield bytes(whole)
            whole.clear()


# ---- codecs: the codec's number, then its bytes


def _unpacked(data: bytes) -> tuple[int, bytes]:
    codec = data[0] % 8 if data else 0
    packed = memoryview(data)[1:]
    plain = bytes(decompress(codec, packed, _OUT_MAX))
    room = bytearray(len(plain))
    size = decompress_into(codec, packed, memoryview(room))
    assert room[:size] == plain, "decompressed into room it is something else"
    return codec, plain


def _packed(value: tuple[int, bytes]) -> bytes:
    codec, plain = value
    return bytes((codec,)) + compress(codec, plain)


def _packed_seeds() -> Iterator[bytes]:
    for codec in Codec:
        for plain in (b"", b"a", b"abc" * 30, bytes(range(256)) * 3, bytes(70_000)):
            if codec or len(plain) < 1000:
                yield _packed((codec, plain))
    yield bytes((Codec.SNAPPY,)) + compress(Codec.SNAPPY, b"abc" * 30)[20:]


def _end_of_frame(data: bytes) -> int:
    end = frame_end(memoryview(data))
    assert 0 < end <= len(data)
    return end


TARGETS = (
    Target(
        name="produced-batch",
        decode=_produced,
        errors=(InvalidBatch,),
        seeds=_produced_seeds,
        memory_base=4 << 20,
        memory_per_byte=1000,
        steps_per_byte=200,
    ),
    Target(
        name="stored-batch",
        decode=_stored,
        errors=(DecodeError,),
        seeds=batches,
        encode=_stored_bytes,
        memory_base=8 * _OUT_MAX,
        memory_per_byte=1000,
        steps_per_byte=200,
    ),
    Target(
        name="record-loops",
        decode=_walked,
        errors=(),
        seeds=_walked_seeds,
        steps_per_byte=200,
    ),
    Target(
        name="batches",
        decode=_answered,
        errors=(ProtocolError,),
        seeds=_logs,
        memory_base=4 << 20,
        steps_per_byte=200,
    ),
    Target(
        name="restored-batches",
        decode=_folded,
        errors=(restoring.CorruptBatch,),
        seeds=_logs,
        memory_base=4 << 20,
        memory_per_byte=1000,
        steps_per_byte=200,
    ),
    Target(
        name="codec",
        decode=_unpacked,
        errors=(DecodeError,),
        seeds=_packed_seeds,
        encode=_packed,
        memory_base=8 * _OUT_MAX,
        memory_per_byte=100,
    ),
    Target(
        name="lz4-frame",
        decode=_end_of_frame,
        errors=(DecodeError,),
        seeds=lambda: (d[1:] for d in _packed_seeds() if d[0] == Codec.LZ4),
    ),
)
