"""What a broker checks in a produced batch, in Kafka's order and with Kafka's errors.

The header: shape, magic, size, CRC, offsets and counts, producer fields. The records, which are
unpacked for it: that they can be read, fill the batch, have a key where the topic is compacted, and
a time within the topic's bounds. What that costs, and where Kafka differs, is in DESIGN.md.

Source: reference Kafka 3.5 rows 5, 6, 10-15, 17-19; ProduceRequest.validateRecords,
UnifiedLog.analyzeAndValidateRecords, LogValidator.
"""

from collections.abc import Callable
from typing import NamedTuple, NoReturn

from tailrace.protocol.compression import DECOMPRESSED_BYTES_MAX, Codec, decompress
from tailrace.protocol.crc32c import crc32c
from tailrace.protocol.errors import BadLength, DecodeError, ErrorCode, ProtocolError
from tailrace.protocol.ids import Buffer
from tailrace.protocol.lz4_frame import frame_end
from tailrace.protocol.records.batch import (
    CODEC_MASK,
    CONTROL,
    CRC_FROM,
    DELETE_HORIZON,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    MAGIC,
    NO_TIMESTAMP,
    TRANSACTIONAL,
    BatchHeader,
    unpack_header,
)
from tailrace.protocol.records.judging import Judged, judge
from tailrace.protocol.records.loops import newest_time
from tailrace.protocol.records.record import RECORD_BYTES_MIN
from tailrace.protocol.records.record_loops import (
    BY_FIELDS,
    IN_ORDER,
    LISTS,
    NEEDS_KEY,
    NOT_PLAIN,
    ONE_TIME,
)
from tailrace.protocol.records.window import WINDOW_BYTES

UNBOUNDED_MS = (1 << 63) - 1
"""`message.timestamp.before.max.ms` as Kafka has it by default: no lower bound."""
_ANY_TIME = -UNBOUNDED_MS - 1, UNBOUNDED_MS
_NO_TIME = 1, 0
_KEPT = CODEC_MASK | TRANSACTIONAL | CONTROL | DELETE_HORIZON
"""Bits that Kafka writes again with the times of a batch."""
_ONE_STEP_BYTES = HEADER_SIZE + WINDOW_BYTES
"""The largest batch that is walked in one step."""
RECORD_ERRORS_MAX = 100
"""Record errors that one answer lists; the batch is refused whole anyway."""


class ProduceRules(NamedTuple):
    """What a topic and a Produce version ask of a batch; built once per topic, not per batch."""

    max_message_bytes: int
    compacted: bool
    timestamp_before_max_ms: int
    timestamp_after_max_ms: int
    log_append_time: bool
    """The topic's own time; then the client's timestamps are not looked at."""
    zstd_allowed: bool
    """Produce v7 and later."""
    segment_bytes: int = UNBOUNDED_MS
    """A larger batch fits no segment."""
    stored_codec: int | None = None
    """What batches are packed with before they are stored; None: they stay as they are."""


class InvalidBatch(ProtocolError):
    """A batch that is refused whole.

    `record_errors`: (index of a record in the batch, why), for Produce v8 and later.
    """

    def __init__(
        self, code: ErrorCode, message: str, record_errors: tuple[tuple[int, str], ...] = ()
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.record_errors = record_errors


class TooMuchToUnpack(Exception):
    """More comes out of a batch than the caller would have unpacked here; nothing is wrong yet."""


def check_batch(buf: Buffer, rules: ProduceRules, now_ms: int) -> BatchHeader:
    """Return the header to store of the one batch in `buf`, which may be stamped for the rest.

    Shape: `buf` holds exactly one batch, nothing after it. The header is the batch's own, but that
    its max timestamp is the newest of the records', or NO_TIMESTAMP, and that time the producer's;
    a topic with a time of its own writes it later. Padding behind an LZ4 frame is not in its size.
    Errors: InvalidBatch with the code of the first check that fails.
    Cost: 2 us, one pass of CRC, 25 ns a record, and what unpacking takes.
    """
    return check_records(buf, check_header(buf, rules), rules, now_ms)


def check_header(buf: Buffer, rules: ProduceRules) -> BatchHeader:
    """Check all that needs no record, and that the bytes can hold as many as the header claims.

    Shape, Errors: as `check_batch`. Cost: 2 us and one pass of CRC, whatever the batch claims.
    """
    if len(buf) < HEADER_SIZE:
        _refuse_short(buf)
    header = unpack_header(buf)
    if (
        header.magic != MAGIC
        or LOG_OVERHEAD + header.batch_length != len(buf)
        or header.attributes & CODEC_MASK == Codec.ZSTD
    ):
        _check_shape(buf, header, rules)
    if header.base_offset != 0:
        _refuse(ErrorCode.INVALID_RECORD, f"base offset {header.base_offset} should be 0")
    if len(buf) > rules.max_message_bytes:
        _refuse(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"batch of {len(buf)} bytes, the topic takes {rules.max_message_bytes}",
        )
    crc = crc32c(memoryview(buf)[CRC_FROM:])
    if crc != header.crc:
        _refuse(ErrorCode.CORRUPT_MESSAGE, f"stored crc {header.crc:#x}, computed {crc:#x}")
    if not _is_plain(header):
        _check_fields(header)
    if not header.attributes & CODEC_MASK:
        _check_room(header, len(buf) - HEADER_SIZE)
    return header


def check_records(
    buf: Buffer,
    header: BatchHeader,
    rules: ProduceRules,
    now_ms: int,
    unpacked_max: int = DECOMPRESSED_BYTES_MAX,
    on_unpacked: Callable[[int], object] = int,
) -> BatchHeader:
    """Check what is inside a batch whose header was checked; return the header to store, as above.

    At most `unpacked_max` bytes are unpacked; `on_unpacked` hears how many.
    Errors: InvalidBatch; TooMuchToUnpack if more come out, unless `unpacked_max` is the format's
    own bound: then the batch is refused. Records are walked in bounded steps: any thread may call
    it, and no other waits for more than one of them.
    """
    taken = _ANY_TIME if rules.log_append_time else _times_taken(rules, now_ms)
    how = LISTS | NEEDS_KEY if rules.compacted else LISTS
    size = len(buf)
    if (
        not header.attributes & ~TRANSACTIONAL
        and size <= _ONE_STEP_BYTES
        and size <= rules.segment_bytes
    ):
        newest = newest_time(
            bytes(memoryview(buf)[HEADER_SIZE:]),
            header.record_count,
            header.base_timestamp,
            taken[0],
            taken[1],
            how,
        )
        if newest != NOT_PLAIN:  # what most are: good, and walked in one step
            if newest == header.max_timestamp:
                return header
            return _put_right(header, size, None if rules.log_append_time else newest)
    return _check_any(buf, header, rules, taken, how, (unpacked_max, on_unpacked))


def _check_any(
    buf: Buffer,
    header: BatchHeader,
    rules: ProduceRules,
    taken: tuple[int, int],
    how: int,
    unpacking: tuple[int, Callable[[int], object]],
) -> BatchHeader:
    """Check what is inside any batch; else as `check_records`."""
    unpacked_max, on_unpacked = unpacking
    codec = header.attributes & CODEC_MASK
    if codec:  # librdkafka could not read what has padding behind it: `size` is without
        payload, size = _unpack(buf, header, unpacked_max)
        on_unpacked(len(payload))
        _check_room(header, len(payload))
        how |= IN_ORDER
        if rules.stored_codec is None or rules.stored_codec == codec:
            how |= BY_FIELDS
    else:
        payload, size = memoryview(buf)[HEADER_SIZE:], len(buf)
    base_time = header.base_timestamp
    if header.attributes & LOG_APPEND_TIME:
        how |= ONE_TIME
        base_time = header.max_timestamp
        if rules.log_append_time or base_time == NO_TIMESTAMP:
            base_time, taken = 0, _NO_TIME
    newest = _newest(payload, (header.record_count, base_time), taken, how)
    if len(buf) > rules.segment_bytes:
        _refuse(
            ErrorCode.RECORD_LIST_TOO_LARGE,
            f"batch of {len(buf)} bytes, a segment takes {rules.segment_bytes}",
        )
    if size == len(buf) and newest == header.max_timestamp and not how & ONE_TIME:
        return header
    return _put_right(header, size, None if rules.log_append_time else newest)


def _put_right(header: BatchHeader, size: int, newest: int | None) -> BatchHeader:
    """Return a header with the batch's true size and newest time; None: the topic sets its own."""
    right = header._replace(batch_length=size - LOG_OVERHEAD)
    if newest is None:
        return right
    return right._replace(attributes=header.attributes & _KEPT, max_timestamp=newest)


def _is_plain(header: BatchHeader) -> bool:
    """Whether no field is wrong, of an uncompressed batch; no says nothing.

    It spares most batches the checks that name what is wrong.
    """
    _, _, _, _, _, attributes, delta, _, _, producer_id, _, sequence, count = header
    return (
        not attributes & ~TRANSACTIONAL
        and delta >= 0
        and count == delta + 1
        and (producer_id < 0 or sequence >= 0)
    )


def _refuse(code: ErrorCode, message: str) -> NoReturn:
    raise InvalidBatch(code, message)


def _refuse_short(buf: Buffer) -> NoReturn:
    """Answer bytes that cannot hold a header, as Kafka's batch iterator does."""
    if len(buf) > 16 and buf[16] in (0, 1):
        _refuse(ErrorCode.INVALID_RECORD, "only batches of magic 2 are taken")
    if (
        len(buf) > 16
        and 0 < int.from_bytes(memoryview(buf)[8:12], "big") <= len(buf) - LOG_OVERHEAD
    ):
        _refuse(ErrorCode.CORRUPT_MESSAGE, f"a batch of {len(buf)} bytes is less than its header")
    _refuse(ErrorCode.INVALID_RECORD, "there must be one whole record batch per partition")


def _check_shape(buf: Buffer, header: BatchHeader, rules: ProduceRules) -> None:
    """Say which of the request's rules a batch breaks; zstd that is allowed breaks none."""
    size, there = header.size_bytes, len(buf)
    if header.magic in (0, 1):
        _refuse(ErrorCode.INVALID_RECORD, "only batches of magic 2 are taken")
    if header.magic != MAGIC or size < HEADER_SIZE:
        _refuse(ErrorCode.CORRUPT_MESSAGE, f"magic {header.magic}, size {size}: no record batch")
    if size > there:
        _refuse(ErrorCode.INVALID_RECORD, f"a batch of {size} bytes, of which {there} were sent")
    if header.codec == Codec.ZSTD and not rules.zstd_allowed:
        _refuse(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, "zstd needs Produce v7 or later")
    if size < there:
        _refuse(ErrorCode.INVALID_RECORD, "there must be exactly one batch per partition")


def _check_fields(header: BatchHeader) -> None:
    """Check offsets, count and producer fields, which the CRC already vouches for."""
    if header.last_offset_delta < 0:
        _refuse(ErrorCode.INVALID_RECORD, f"last offset delta {header.last_offset_delta}")
    if header.record_count <= 0:
        _refuse(ErrorCode.INVALID_RECORD, f"record count {header.record_count}")
    if header.record_count != header.last_offset_delta + 1:
        _refuse(
            ErrorCode.INVALID_RECORD,
            f"{header.record_count} records, last offset delta {header.last_offset_delta}",
        )
    if header.attributes & CONTROL:
        _refuse(ErrorCode.INVALID_RECORD, "clients may not write control records")
    if header.codec > Codec.ZSTD:
        _refuse(ErrorCode.INVALID_RECORD, f"codec {header.codec} is none of Kafka's")
    if header.producer_id >= 0 and header.base_sequence < 0:
        _refuse(
            ErrorCode.INVALID_RECORD,
            f"sequence {header.base_sequence} with producer id {header.producer_id}",
        )


def _check_room(header: BatchHeader, size: int) -> None:
    """Refuse a count that the bytes cannot hold: 100 bytes could take two billion offsets."""
    if header.record_count * RECORD_BYTES_MIN > size:
        _refuse(ErrorCode.INVALID_RECORD, f"{header.record_count} records in {size} bytes")


def _unpack(buf: Buffer, header: BatchHeader, unpacked_max: int) -> tuple[Buffer, int]:
    """Decompress; return also where what is compressed ends. Else, as `check_records`.

    What is too much gets the error on which producers split a batch. The decompressor's error ends
    here: its frames hold all that had come out, 64 MiB at most.
    """
    packed = memoryview(buf)[HEADER_SIZE:]
    try:
        payload = decompress(header.codec, packed, unpacked_max)
        end = frame_end(packed) if header.codec == Codec.LZ4 else len(packed)
    except BadLength as error:
        if unpacked_max < DECOMPRESSED_BYTES_MAX:
            raise TooMuchToUnpack(str(error)) from None
        code, reason = ErrorCode.MESSAGE_TOO_LARGE, str(error)
    except DecodeError as error:
        code, reason = ErrorCode.INVALID_RECORD, str(error)
    else:
        return payload, HEADER_SIZE + end
    raise InvalidBatch(code, reason)


def _times_taken(rules: ProduceRules, now_ms: int) -> tuple[int, int]:
    """Return the oldest and newest time that is taken, both inclusive and of 64 bits."""
    before_ms, after_ms = rules.timestamp_before_max_ms, rules.timestamp_after_max_ms
    oldest = -UNBOUNDED_MS if before_ms == UNBOUNDED_MS else now_ms - before_ms
    return oldest, UNBOUNDED_MS if after_ms > UNBOUNDED_MS - now_ms else now_ms + after_ms


def _newest(payload: Buffer, claims: tuple[int, int], taken: tuple[int, int], how: int) -> int:
    """Return the newest time of the records, or say what is wrong with them.

    `claims`: how many there are, and the time that theirs are counted from.
    """
    count, base_time = claims
    oldest, newest_taken = taken
    if len(payload) <= WINDOW_BYTES:
        newest = newest_time(bytes(payload), count, base_time, oldest, newest_taken, how)
        if newest != NOT_PLAIN:
            return newest
    try:
        found = judge(payload, count, base_time, taken, how, RECORD_ERRORS_MAX)
    except DecodeError as error:
        raise InvalidBatch(ErrorCode.INVALID_RECORD, str(error)) from None
    if found.untaken:
        _refuse_records(found, taken)
    return found.newest


def _refuse_records(found: Judged, taken: tuple[int, int]) -> NoReturn:
    """Answer bad records: a bad time wins over a missing key, as in Kafka."""
    wrong_time = f"is not in [{taken[0]}, {taken[1]}]"
    if taken == _NO_TIME:
        wrong_time = "is the broker's to set: producers may not use LogAppendTime"
    errors = tuple(
        (index, f"Timestamp {time} {wrong_time}.")
        if time is not None
        else (index, "Compacted topic cannot accept message without key.")
        for index, time in found.untaken
    )
    code = ErrorCode.INVALID_TIMESTAMP if found.untimely else ErrorCode.INVALID_RECORD
    count = found.keyless + found.untimely
    message = f"{count} records of the batch were refused; the first: {errors[0][1]}"
    raise InvalidBatch(code, message, errors)
