"""Batches against other people's codecs, both ways: aiokafka's (compiled) and kafka-python's."""

import warnings
from typing import Any

import pytest
from aiokafka.record.default_records import DefaultRecordBatch as AioBatch
from aiokafka.record.default_records import DefaultRecordBatchBuilder as AioBuilder
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.protocol.compression import Codec
from tailrace.protocol.records.batch import read_header, stamp_log_append_time, verify_crc
from tailrace.protocol.records.record import Producer, Record, build_batch, iter_records
from tests.strategies import record_lists

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # kafka-python 3.0 warns on its own import
    from kafka.codec import has_snappy, has_zstd
    from kafka.record.default_records import DefaultRecordBatch as KafkaPythonBatch
    from kafka.record.default_records import DefaultRecordBatchBuilder as KafkaPythonBuilder

# kafka-python needs python-snappy and zstandard for two of its codecs; without, they are left out.
KAFKA_PYTHON_CODECS = [
    codec
    for codec in Codec
    if (codec != Codec.SNAPPY or has_snappy()) and (codec != Codec.ZSTD or has_zstd())
]
LIBRARIES = [
    *((AioBatch, AioBuilder, codec) for codec in Codec),
    *((KafkaPythonBatch, KafkaPythonBuilder, codec) for codec in KAFKA_PYTHON_CODECS),
]
each_library = pytest.mark.parametrize(("batch_class", "builder_class", "codec"), LIBRARIES)


def plain(record: Any) -> Record:
    """Return a foreign record as ours."""
    headers = tuple((name, value) for name, value in record.headers)
    timestamp_type = record.timestamp_type or 0
    return Record(
        record.offset, record.timestamp, timestamp_type, record.key, record.value, headers
    )


@each_library
@settings(max_examples=30)
@given(records=record_lists())
def test_they_read_what_we_write(
    batch_class: Any, builder_class: Any, codec: int, records: list[Record]
) -> None:
    ours = bytes(build_batch(records, codec, producer=Producer(5, 1, 10)))
    batch = batch_class(ours)
    assert batch.validate_crc()
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (5, 1, 10)
    assert [plain(record) for record in batch] == records


@each_library
@settings(max_examples=30)
@given(records=record_lists(), transactional=st.booleans())
def test_we_read_what_they_write(
    batch_class: Any, builder_class: Any, codec: int, records: list[Record], transactional: bool
) -> None:
    builder = builder_class(2, codec, int(transactional), 9, 3, 40, 1 << 20)
    for record in records:
        added = builder.append(
            record.offset, record.timestamp, record.key, record.value, list(record.headers)
        )
        assert added is not None
    theirs = bytes(builder.build())
    verify_crc(theirs)
    header = read_header(theirs)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (9, 3, 40)
    assert header.is_transactional == transactional
    assert header.size_bytes == len(theirs)
    assert header.max_timestamp == max(record.timestamp for record in records)
    assert list(iter_records(theirs)) == records


@pytest.mark.parametrize("batch_class", [AioBatch, KafkaPythonBatch])
def test_they_read_the_brokers_time(batch_class: Any) -> None:
    batch = build_batch([Record(0, 5, value=b"a"), Record(1, 9, value=b"b")])
    stamp_log_append_time(batch, 4321)
    foreign = batch_class(bytes(batch))
    assert foreign.validate_crc()
    assert [(r.timestamp, r.timestamp_type) for r in foreign] == [(4321, 1)] * 2


@pytest.mark.parametrize("codec", [Codec.NONE])
@given(records=record_lists())
def test_an_uncompressed_batch_is_theirs_byte_for_byte(codec: int, records: list[Record]) -> None:
    builder = AioBuilder(2, codec, 0, -1, -1, -1, 1 << 20)
    for record in records:
        builder.append(
            record.offset, record.timestamp, record.key, record.value, list(record.headers)
        )
    theirs = bytearray(builder.build())
    ours = build_batch(records, codec, leader_epoch=read_header(theirs).partition_leader_epoch)
    assert ours == theirs
