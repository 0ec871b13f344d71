import struct
from collections.abc import Callable
from functools import partial
from typing import Any

import cramjam
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.protocol.compression import Codec, compress
from tailrace.protocol.errors import DecodeError, ErrorCode
from tailrace.protocol.ids import Buffer
from tailrace.protocol.records import validate, window
from tailrace.protocol.records.batch import (
    CONTROL,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    NO_TIMESTAMP,
    pack_header,
    read_header,
    stamp_crc,
)
from tailrace.protocol.records.judging import judge
from tailrace.protocol.records.loops import newest_time
from tailrace.protocol.records.record import Producer, Record, build_batch
from tailrace.protocol.records.record_loops import BY_FIELDS, IN_ORDER, LISTS, NEEDS_KEY, NOT_PLAIN
from tailrace.protocol.records.validate import (
    RECORD_ERRORS_MAX,
    UNBOUNDED_MS,
    InvalidBatch,
    ProduceRules,
    TooMuchToUnpack,
    check_batch,
    check_header,
    check_records,
)
from tests.malformed import CASES, Case, record, sealed
from tests.strategies import hostile, record_batches

NOW_MS = 1_700_000_000_000
HOUR_MS = 3_600_000
ORDINARY = ProduceRules(1 << 20, False, UNBOUNDED_MS, HOUR_MS, False, True)
COMPACTED = ORDINARY._replace(compacted=True)


def batch(count: int = 3, codec: int = 0, key: bytes | None = b"k", **more: object) -> bytearray:
    records = [Record(at, NOW_MS + at, key=key, value=b"v" * 20) for at in range(count)]
    return build_batch(records, codec, **more)  # type: ignore[arg-type]


def change(form: str, at: int, value: int, source: bytearray | None = None) -> bytearray:
    """Return a batch with one field of its header changed and the CRC right again."""
    changed = batch() if source is None else source
    struct.pack_into(form, changed, at, value)
    stamp_crc(changed)
    return changed


def refusal(data: bytes | bytearray, rules: ProduceRules = ORDINARY) -> InvalidBatch:
    with pytest.raises(InvalidBatch) as caught:
        check_batch(memoryview(data), rules, NOW_MS)
    assert caught.value.message
    return caught.value


@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize("rules", [ORDINARY, COMPACTED, ORDINARY._replace(log_append_time=True)])
def test_a_good_batch_passes(codec: Codec, rules: ProduceRules) -> None:
    data = memoryview(batch(codec=codec, producer=Producer(1, 0, 5)))
    assert check_batch(data, rules, NOW_MS) == read_header(data)


def test_any_leader_epoch_of_the_client_passes() -> None:
    check_batch(batch(leader_epoch=12345), ORDINARY, NOW_MS)


def lz4_batch(pack: Callable[[bytes], bytes]) -> bytearray:
    plain = batch()
    packed = pack(bytes(plain[HEADER_SIZE:]))
    header = read_header(plain)
    changed = header._replace(
        batch_length=HEADER_SIZE - LOG_OVERHEAD + len(packed), attributes=Codec.LZ4
    )
    data = bytearray(pack_header(changed)) + packed
    stamp_crc(data)
    return data


def test_lz4_that_java_would_not_read_whole() -> None:
    """Any LZ4 library reads these; they would stop every Java consumer, or hide records."""
    frame = partial(compress, Codec.LZ4)
    check_batch(memoryview(lz4_batch(frame)), ORDINARY, NOW_MS)
    linked = lz4_batch(lambda plain: bytes(cramjam.lz4.compress(plain)))
    two = lz4_batch(lambda plain: frame(plain[:9]) + frame(plain[9:]))
    for data in (linked, two):
        for rules in (ORDINARY, COMPACTED):
            assert refusal(data, rules).code == ErrorCode.INVALID_RECORD


# ---- header and records, each by itself


@pytest.mark.parametrize("codec", list(Codec)[1:])
@pytest.mark.parametrize("rules", [ORDINARY, COMPACTED])
def test_no_more_is_unpacked_than_the_caller_allows(codec: Codec, rules: ProduceRules) -> None:
    data = memoryview(batch(count=2000, codec=codec))
    size = len(batch(count=2000)) - HEADER_SIZE
    header = check_header(data, rules)
    with pytest.raises(TooMuchToUnpack):
        check_records(data, header, rules, NOW_MS, size - 1)
    assert check_records(data, header, rules, NOW_MS, size) == header


def test_the_header_alone_bounds_what_an_uncompressed_batch_claims() -> None:
    with pytest.raises(InvalidBatch):
        check_header(batch(count=2)[: HEADER_SIZE - 1], ORDINARY)
    claims = batch(count=2)
    struct.pack_into(">i", claims, 23, 1_000_000 - 1)
    with pytest.raises(InvalidBatch, match="1000000 records in"):
        check_header(change(">i", 57, 1_000_000, claims), ORDINARY)


# ---- row 5: shape of the request


def test_no_batch_a_cut_one_and_more_than_one() -> None:
    data = batch()
    assert refusal(b"").code == ErrorCode.INVALID_RECORD
    for length in range(len(data)):
        assert refusal(data[:length]).code == ErrorCode.INVALID_RECORD
    assert refusal(data + data).code == ErrorCode.INVALID_RECORD
    assert refusal(data + b"x").code == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("magic", [0, 1])
def test_an_old_magic(magic: int) -> None:
    data = batch()
    data[16] = magic
    assert refusal(data).code == ErrorCode.INVALID_RECORD
    assert refusal(data[:30]).code == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("magic", [3, 127, 255])
def test_a_magic_that_nobody_has(magic: int) -> None:
    data = batch()
    data[16] = magic
    assert refusal(data).code == ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("length", [0, -1, 48, -(1 << 31)])
def test_a_length_below_a_header(length: int) -> None:
    data = batch()
    struct.pack_into(">i", data, 8, length)
    assert refusal(data).code == ErrorCode.CORRUPT_MESSAGE


def test_a_whole_batch_shorter_than_a_header() -> None:
    data = batch()[:50]
    struct.pack_into(">i", data, 8, 38)
    assert refusal(data).code == ErrorCode.CORRUPT_MESSAGE


# ---- row 6


def test_zstd_needs_a_newer_produce() -> None:
    older = ORDINARY._replace(zstd_allowed=False)
    assert refusal(batch(codec=Codec.ZSTD), older).code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    check_batch(batch(codec=Codec.LZ4), older, NOW_MS)


# ---- rows 10 to 15


def test_a_base_offset_from_a_client() -> None:
    assert refusal(change(">q", 0, 5)).code == ErrorCode.INVALID_RECORD


def test_the_size_limit_is_on_the_whole_compressed_batch() -> None:
    data = batch(codec=Codec.GZIP)
    check_batch(data, ORDINARY._replace(max_message_bytes=len(data)), NOW_MS)
    small = ORDINARY._replace(max_message_bytes=len(data) - 1)
    assert refusal(data, small).code == ErrorCode.MESSAGE_TOO_LARGE


def test_every_flipped_bit_after_the_magic_is_a_corrupt_message() -> None:
    data = batch(1)
    for bit in range(17 * 8, len(data) * 8):
        data[bit // 8] ^= 1 << bit % 8
        code = refusal(data).code
        in_codec = bit // 8 == 22 and data[22] & 7 == Codec.ZSTD  # read before the CRC, as in Kafka
        assert code == ErrorCode.CORRUPT_MESSAGE or in_codec
        data[bit // 8] ^= 1 << bit % 8


@pytest.mark.parametrize(("delta", "count"), [(-1, 3), (2, 0), (2, -1), (2, 2), (2, 4), (-2, -1)])
def test_offset_range_and_count(delta: int, count: int) -> None:
    data = change(">i", 57, count, change(">i", 23, delta))
    assert refusal(data).code == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("codec", list(Codec))
def test_more_records_than_the_bytes_can_hold(codec: Codec) -> None:
    """One small batch must not use up two billion offsets."""
    data = batch(codec=codec)
    for count in (1 << 16, (1 << 31) - 1):
        change(">i", 23, count - 1, data)
        refused = refusal(change(">i", 57, count, data))
        assert refused.code == ErrorCode.INVALID_RECORD
        assert refused.message.startswith(f"{count} records in ")


def test_a_control_batch_from_a_client() -> None:
    assert refusal(batch(attributes=CONTROL)).code == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_a_codec_that_kafka_does_not_have(codec: int) -> None:
    assert refusal(change(">h", 21, codec)).code == ErrorCode.INVALID_RECORD


def test_a_producer_id_without_a_sequence() -> None:
    assert refusal(batch(producer=Producer(7, 0, -1))).code == ErrorCode.INVALID_RECORD
    check_batch(batch(producer=Producer(7, 0, 0)), ORDINARY, NOW_MS)
    check_batch(batch(producer=Producer(-1, -1, -1)), ORDINARY, NOW_MS)


# ---- the codec's stream


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_a_broken_stream_is_nothing_to_send_again(codec: Codec) -> None:
    """Producers repeat a CORRUPT_MESSAGE for minutes."""
    data = batch(50, codec=codec)
    data[HEADER_SIZE + 4 :] = bytes(len(data) - HEADER_SIZE - 4)
    stamp_crc(data)
    assert refusal(data).code == ErrorCode.INVALID_RECORD
    assert refusal(data, COMPACTED).code == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4])
def test_padding_behind_a_stream_is_taken(codec: Codec) -> None:
    data = batch(50, codec=codec) + bytes(8)
    struct.pack_into(">i", data, 8, len(data) - LOG_OVERHEAD)
    stamp_crc(data)
    for rules in (ORDINARY, COMPACTED):
        header = check_batch(data, rules, NOW_MS)
        cut = 8 if codec == Codec.LZ4 else 0  # librdkafka would not read it
        assert header == read_header(data)._replace(batch_length=header.batch_length)
        assert header.size_bytes == len(data) - cut


@pytest.mark.parametrize("rules", [ORDINARY, COMPACTED])
def test_a_bomb_gets_the_error_on_which_producers_split_a_batch(rules: ProduceRules) -> None:
    bomb = build_batch([Record(0, NOW_MS, key=b"k", value=bytes(65 << 20))], Codec.ZSTD)
    assert len(bomb) < 100_000
    assert refusal(bomb, rules).code == ErrorCode.MESSAGE_TOO_LARGE


# ---- rows 17 to 19


@pytest.mark.parametrize("codec", list(Codec))
def test_keyless_records_of_a_compacted_topic_are_named(codec: Codec) -> None:
    records = [Record(at, NOW_MS, key=None if at in (1, 3) else b"k") for at in range(5)]
    data = build_batch(records, codec)
    check_batch(data, ORDINARY, NOW_MS)
    refused = refusal(data, COMPACTED)
    assert refused.code == ErrorCode.INVALID_RECORD
    assert [index for index, _ in refused.record_errors] == [1, 3]


@pytest.mark.parametrize("codec", list(Codec))
def test_log_append_time_of_a_client_is_taken_back(codec: Codec) -> None:
    """Its records then all have the header's time, which has to be one that is taken."""
    data = change(">q", 35, NOW_MS - 9, batch(codec=codec, attributes=LOG_APPEND_TIME))
    stored = read_header(data)._replace(attributes=codec)
    assert check_batch(data, ORDINARY, NOW_MS) == stored
    data = change(">q", 35, NOW_MS + HOUR_MS + 1, data)
    refused = refusal(data)
    assert refused.code == ErrorCode.INVALID_TIMESTAMP
    assert [index for index, _ in refused.record_errors] == [0, 1, 2]


def test_log_append_time_of_a_client_where_it_means_nothing() -> None:
    data = batch(attributes=LOG_APPEND_TIME)
    for wrong, rules in (
        (data, ORDINARY._replace(log_append_time=True)),
        (change(">q", 35, -1, batch(attributes=LOG_APPEND_TIME)), ORDINARY),
    ):
        refused = refusal(wrong, rules)
        assert refused.code == ErrorCode.INVALID_TIMESTAMP
        assert [index for index, _ in refused.record_errors] == [0, 1, 2]


def test_a_batch_has_to_fit_a_segment() -> None:
    data = batch(100)
    check_batch(data, ORDINARY._replace(segment_bytes=len(data)), NOW_MS)
    small = ORDINARY._replace(segment_bytes=len(data) - 1)
    assert refusal(data, small).code == ErrorCode.RECORD_LIST_TOO_LARGE


def timed(*timestamps: int, codec: int = 0, key: bytes | None = b"k") -> bytearray:
    records = [Record(at, timestamp, key=key) for at, timestamp in enumerate(timestamps)]
    return build_batch(records, codec)


@pytest.mark.parametrize("codec", list(Codec))
def test_times_in_the_future(codec: Codec) -> None:
    check_batch(timed(NOW_MS + HOUR_MS, codec=codec), ORDINARY, NOW_MS)
    refused = refusal(timed(NOW_MS, NOW_MS + HOUR_MS + 1, codec=codec))
    assert refused.code == ErrorCode.INVALID_TIMESTAMP
    assert [index for index, _ in refused.record_errors] == [1]


@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize(
    "said", [-1, 0, NOW_MS - 5, NOW_MS + 1, NOW_MS + 100 * HOUR_MS, -(1 << 63)]
)
def test_the_max_timestamp_is_the_records(codec: Codec, said: int) -> None:
    """A client that says another one is not refused for it, and not believed."""
    data = change(">q", 35, said, timed(NOW_MS - 3, NOW_MS - 1, NOW_MS - 2, codec=codec))
    for rules in (ORDINARY, COMPACTED):
        header = check_batch(data, rules, NOW_MS)
        assert header == read_header(data)._replace(max_timestamp=NOW_MS - 1)
    own = ORDINARY._replace(log_append_time=True)
    assert check_batch(data, own, NOW_MS) == read_header(data)


@pytest.mark.parametrize("said", [-1, NOW_MS])
def test_records_of_the_future_are_found_whatever_the_header_says(said: int) -> None:
    data = change(">q", 35, said, timed(NOW_MS, NOW_MS + HOUR_MS + 1))
    refused = refusal(data)
    assert refused.code == ErrorCode.INVALID_TIMESTAMP
    assert [index for index, _ in refused.record_errors] == [1]


@pytest.mark.parametrize("said", [NOT_PLAIN, NO_TIMESTAMP, 0, -(1 << 63)])
def test_no_max_timestamp_hides_bad_records(said: int) -> None:
    keyless = change(">q", 35, said, batch(key=None))
    assert refusal(keyless, COMPACTED).code == ErrorCode.INVALID_RECORD
    cut = change(">i", 57, 4, change(">i", 23, 3, change(">q", 35, said)))
    assert refusal(cut).code == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("rules", [ORDINARY, ORDINARY._replace(log_append_time=True)])
@pytest.mark.parametrize("said", [NOW_MS + 2, NO_TIMESTAMP, NOT_PLAIN])
def test_a_good_batch_is_walked_once_whatever_its_header_says(
    said: int, rules: ProduceRules, monkeypatch: pytest.MonkeyPatch
) -> None:
    walks = []

    def counted(*arguments: Any) -> int:
        walks.append(arguments[1])
        return newest_time(*arguments)

    monkeypatch.setattr(validate, "newest_time", counted)
    check_batch(memoryview(change(">q", 35, said)), rules, NOW_MS)
    assert walks == [3]


def test_records_without_a_time_leave_none_to_the_batch() -> None:
    data = change(">q", 35, NOW_MS, timed(-1, -1))
    assert check_batch(data, ORDINARY, NOW_MS).max_timestamp == -1
    before = change(">q", 35, NOW_MS, timed(-5, -9))
    assert check_batch(before, ORDINARY, NOW_MS).max_timestamp == -1


def test_times_in_the_past() -> None:
    bounded = ORDINARY._replace(timestamp_before_max_ms=HOUR_MS)
    old = timed(NOW_MS, NOW_MS - HOUR_MS, NOW_MS - HOUR_MS - 1)
    check_batch(old, ORDINARY, NOW_MS)
    refused = refusal(old, bounded)
    assert refused.code == ErrorCode.INVALID_TIMESTAMP
    assert [index for index, _ in refused.record_errors] == [2]


def test_no_timestamp_is_in_every_bound() -> None:
    bounded = ORDINARY._replace(timestamp_before_max_ms=0, timestamp_after_max_ms=0)
    check_batch(timed(-1, -1), bounded, NOW_MS)


def test_the_topics_own_time_makes_the_clients_irrelevant() -> None:
    rules = COMPACTED._replace(
        log_append_time=True, timestamp_before_max_ms=0, timestamp_after_max_ms=0
    )
    check_batch(timed(5, NOW_MS * 2), rules, NOW_MS)


def test_a_bad_time_wins_over_a_missing_key() -> None:
    records = [Record(0, NOW_MS), Record(1, NOW_MS * 2, key=b"k"), Record(2, NOW_MS * 2)]
    refused = refusal(build_batch(records), COMPACTED)
    assert refused.code == ErrorCode.INVALID_TIMESTAMP
    assert [index for index, _ in refused.record_errors] == [0, 1, 2]
    assert "key" in refused.record_errors[2][1]  # one error per record: the key is looked at first


def test_the_answer_stays_short_however_many_records_are_bad() -> None:
    refused = refusal(batch(5000, key=None), COMPACTED)
    assert len(refused.record_errors) == RECORD_ERRORS_MAX


# ---- what is inside the records


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_records_that_kafka_refuses_are_refused(case: Case) -> None:
    if case.is_taken:
        check_batch(memoryview(case.batch), ORDINARY, NOW_MS)
        if "key length of -2" not in case.name:
            check_batch(memoryview(case.batch), COMPACTED, NOW_MS)
    else:
        refused = refusal(case.batch)
        assert refused.code == ErrorCode.INVALID_RECORD
        assert refused.record_errors == ()


def test_what_is_packed_anew_is_read_as_strictly_as_what_is_not_packed() -> None:
    """Kafka rebuilds such a batch from its records, and so finds lengths that are wrong."""
    lies = sealed(record(length=60), 1, Codec.GZIP)
    check_batch(lies, ORDINARY, NOW_MS)
    check_batch(lies, ORDINARY._replace(stored_codec=Codec.GZIP), NOW_MS)
    rules = ORDINARY._replace(stored_codec=Codec.ZSTD)
    assert refusal(lies, rules).code == ErrorCode.INVALID_RECORD


def test_a_bad_record_behind_a_hundred_thousand_is_found() -> None:
    count = 100_000
    good = b"".join(record(at, b"k", b"") for at in range(count))
    check_batch(sealed(good, count, Codec.ZSTD), COMPACTED, NOW_MS)
    bad = sealed(good + record(count, key_length=50), count + 1, Codec.ZSTD)
    assert f"record {count}: " in refusal(bad).message


def test_records_that_are_refused_are_counted_without_a_list_of_all() -> None:
    count = 200_000
    keyless = b"".join(record(at, b"", b"", key_length=-1) for at in range(count))
    refused = refusal(sealed(keyless, count, Codec.ZSTD), COMPACTED)
    assert refused.message.startswith(f"{count} records of the batch were refused")
    assert len(refused.record_errors) == RECORD_ERRORS_MAX


@given(
    payload=hostile(record_batches(codec=st.just(0)).map(lambda whole: whole[HEADER_SIZE:])),
    count=st.integers(1, 9),
    how=st.sampled_from([0, BY_FIELDS, NEEDS_KEY, IN_ORDER | BY_FIELDS]),
    window_bytes=st.integers(1, 40),
)
def test_a_walk_in_parts_is_the_walk(
    payload: bytes, count: int, how: int, window_bytes: int
) -> None:
    def judged(form: Buffer) -> object:
        try:
            return judge(form, count, 0, (0, 1 << 40), how | LISTS, 3)
        except DecodeError as error:
            return type(error)

    whole = judged(payload)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(window, "WINDOW_BYTES", window_bytes)
        assert judged(memoryview(payload)) == whole


# ---- order of the checks


def test_kafkas_order_of_checks() -> None:
    """Break a batch by every rule, then mend one after the other."""
    rules = ORDINARY._replace(max_message_bytes=100, zstd_allowed=False)
    data = build_batch([Record(0, NOW_MS), Record(1, NOW_MS)], Codec.ZSTD, attributes=CONTROL)
    data += bytes(100)
    struct.pack_into(">i", data, 8, len(data) - 12)
    struct.pack_into(">q", data, 0, 9)
    struct.pack_into(">i", data, 57, 7)
    assert refusal(data, rules).code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    rules = rules._replace(zstd_allowed=True)
    assert "base offset" in refusal(data, rules).message
    struct.pack_into(">q", data, 0, 0)
    assert refusal(data, rules).code == ErrorCode.MESSAGE_TOO_LARGE
    rules = rules._replace(max_message_bytes=1000)
    assert refusal(data, rules).code == ErrorCode.CORRUPT_MESSAGE
    stamp_crc(data)
    assert "last offset delta" in refusal(data, rules).message
    assert "control" in refusal(change(">i", 57, 2, data), rules).message
    assert "zstd" in refusal(change(">h", 21, Codec.ZSTD, data), rules).message


@settings(max_examples=500)
@given(hostile(record_batches()), st.sampled_from([ORDINARY, COMPACTED]), st.booleans())
def test_hostile_batches_are_refused_by_code_or_taken(
    data: bytes, rules: ProduceRules, mend: bool
) -> None:
    changed = bytearray(data)
    if mend and len(changed) >= HEADER_SIZE:
        struct.pack_into(">i", changed, 8, len(changed) - 12)
        changed[16] = 2
        stamp_crc(changed)
    try:
        header = check_batch(changed, rules, NOW_MS)
    except InvalidBatch:
        return
    assert header.size_bytes <= len(changed)


# ---- the short cut of plain batches


@settings(max_examples=400)
@given(
    attributes=st.sampled_from([0, 1, 0x08, 0x10, 0x20, 0x40, -1])
    | st.integers(-(1 << 15), 0x7FFF),
    delta=st.integers(-2, 4),
    count=st.sampled_from([-1, 0, 1, 3, 4, 1 << 30]),
    newest_ms=st.sampled_from([-1, NOW_MS, NOW_MS + HOUR_MS, NOW_MS + HOUR_MS + 1]),
    producer=st.tuples(st.integers(-2, 2), st.integers(-2, 2)),
    compacted=st.booleans(),
    append_time=st.booleans(),
)
def test_a_plain_batch_is_one_that_all_checks_pass(
    attributes: int,
    delta: int,
    count: int,
    newest_ms: int,
    producer: tuple[int, int],
    compacted: bool,
    append_time: bool,
) -> None:
    rules = ORDINARY._replace(compacted=compacted, log_append_time=append_time)
    data = batch()
    struct.pack_into(">hi", data, 21, attributes, delta)
    struct.pack_into(">qqhii", data, 35, newest_ms, producer[0], 0, producer[1], count)
    stamp_crc(data)

    def judge() -> object:
        try:
            return check_batch(data, rules, NOW_MS)
        except InvalidBatch as error:
            return (error.code, error.message, error.record_errors)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(validate, "_is_plain", lambda *_: False)
        by_all_checks = judge()
    assert judge() == by_all_checks
