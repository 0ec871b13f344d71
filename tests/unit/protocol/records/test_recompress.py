"""Batches in another codec: the same records, the same header but for what has to change."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.protocol.compression import GZIP_LEVEL, Codec, compress
from tailrace.protocol.records.batch import (
    DELETE_HORIZON,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    read_header,
    verify_crc,
)
from tailrace.protocol.records.recompress import StoredAs, recompress
from tailrace.protocol.records.record import Producer, Record, build_batch, iter_records

codecs = st.sampled_from(list(Codec))
records = st.lists(
    st.builds(
        Record,
        timestamp=st.integers(0, 1 << 40),
        key=st.none() | st.binary(max_size=9),
        value=st.none() | st.binary(max_size=200),
        headers=st.just((("h", b"x"),)) | st.just(()),
    ),
    min_size=1,
    max_size=20,
).map(lambda each: [record._replace(offset=n) for n, record in enumerate(each)])


@given(records, codecs, codecs, st.sampled_from([0, TRANSACTIONAL, LOG_APPEND_TIME]))
def test_nothing_but_the_codec_changes(
    content: list[Record], source: Codec, target: Codec, attributes: int
) -> None:
    producer = Producer(producer_id=5, epoch=3, base_sequence=9)
    batch = bytes(build_batch(content, source, producer=producer, attributes=attributes))
    header = read_header(batch)
    changed = recompress(batch, header, StoredAs(target, None))
    verify_crc(changed)
    now = read_header(changed)
    assert (now.codec, now.size_bytes) == (target, len(changed))
    same = {"crc": 0, "batch_length": 0, "attributes": 0}
    assert now._replace(**same) == header._replace(**same)
    assert now.attributes & ~7 == header.attributes & ~7
    assert list(iter_records(changed)) == list(iter_records(batch))


@pytest.mark.parametrize("bit", [DELETE_HORIZON, 0x80, 0x4000])
def test_bits_that_only_a_broker_sets_go_as_in_kafka(bit: int) -> None:
    """Kafka 4.3.1 stores what a client set, but writes the attributes anew with another codec."""
    batch = bytes(build_batch([Record(0, 9, key=b"k")], attributes=bit | TRANSACTIONAL))
    changed = recompress(batch, read_header(batch), StoredAs(Codec.LZ4, None))
    assert read_header(changed).attributes == TRANSACTIONAL | Codec.LZ4


@pytest.mark.parametrize(
    ("codec", "low", "high"), [(Codec.GZIP, 1, 9), (Codec.LZ4, 9, 17), (Codec.ZSTD, -1000, 22)]
)
def test_levels_act(codec: Codec, low: int, high: int) -> None:
    text = b"".join(b"line %d of a text that repeats itself\n" % (n * n) for n in range(3000))
    batch = bytes(build_batch([Record(offset=0, timestamp=1, value=text)]))
    sizes = [len(recompress(batch, read_header(batch), StoredAs(codec, n))) for n in (low, high)]
    assert sizes[1] < sizes[0]


def test_the_default_of_gzip_is_zlibs() -> None:
    data = b"abc" * 1000
    assert compress(Codec.GZIP, data) == compress(Codec.GZIP, data, GZIP_LEVEL)
    assert compress(Codec.GZIP, data) == compress(Codec.GZIP, data, 6)
