"""Fetch by hand equals Fetch by construct, on good bytes and on bad ones, in every version."""

import dataclasses
import functools
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.protocol.errors import DecodeError
from tailrace.protocol.kafka import hot_fetch, wire
from tailrace.protocol.kafka.apis import FETCH
from tailrace.protocol.kafka.messages.fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
    SnapshotId,
)
from tests.unit.protocol.kafka.samples import damaged, sample, values

every_version = pytest.mark.parametrize("version", FETCH.versions)


def by_construct(version: int, data: bytes) -> FetchRequest | None:
    try:
        return wire.decode(FetchRequest, version, data, flexible=FETCH.flexible(version))
    except DecodeError:
        return None


def construct_encode(version: int, message: object) -> bytes:
    return wire.join(wire.encode(message, version, flexible=FETCH.flexible(version)))


@functools.cache
def bad_bytes(version: int) -> st.SearchStrategy[bytes]:
    whole = values(FetchRequest, version).map(lambda v: construct_encode(version, v))
    return st.binary(max_size=60) | damaged(whole)


def one_partition(data: PartitionData) -> FetchResponse:
    topic = FetchableTopicResponse(topic="t", topic_id=bytes(range(16)), partitions=(data,))
    return FetchResponse(responses=(topic,))


@every_version
@settings(max_examples=50)
@given(data=st.data())
def test_requests_decode_as_by_construct(version: int, data: st.DataObject) -> None:
    encoded = construct_encode(version, data.draw(values(FetchRequest, version)))
    ours = hot_fetch.decode_request(version, memoryview(encoded))
    assert ours in (None, by_construct(version, encoded))


@every_version
@settings(max_examples=50)
@given(data=st.data())
def test_what_construct_refuses_is_declined(version: int, data: st.DataObject) -> None:
    bad = data.draw(bad_bytes(version))
    ours = hot_fetch.decode_request(version, memoryview(bad))
    assert ours is None or ours == by_construct(version, bad)


@every_version
@settings(max_examples=50)
@given(data=st.data())
def test_responses_encode_as_by_construct(version: int, data: st.DataObject) -> None:
    response = data.draw(values(FetchResponse, version))
    parts = hot_fetch.encode_response(version, response)
    assert parts is None or wire.join(parts) == construct_encode(version, response)


@every_version
def test_plain_requests_are_not_declined(version: int) -> None:
    for seed in range(40):
        request = sample(FetchRequest, version, Random(seed), plain=True)
        request = dataclasses.replace(request, forgotten_topics_data=())
        encoded = construct_encode(version, request)
        assert hot_fetch.decode_request(version, memoryview(encoded)) == request


@every_version
def test_records_are_passed_through_and_never_joined(version: int) -> None:
    batches = [memoryview(b"batch one"), bytearray(b"batch two"), b"batch three"]
    for aborted in (None, ()):
        data = PartitionData(high_watermark=9, aborted_transactions=aborted, records=batches)
        response = one_partition(data)
        parts = hot_fetch.encode_response(version, response)
        assert parts is not None
        assert [part for part in parts if part in batches] == batches
        assert all(any(part is batch for part in parts) for batch in batches)
        joined = dataclasses.replace(data, records=b"".join(batches))
        assert wire.join(parts) == construct_encode(version, one_partition(joined))


@every_version
@pytest.mark.parametrize("records", [None, b"", [], [b""], b"x"])
def test_no_records_and_one_buffer(version: int, records: bytes | list[bytes] | None) -> None:
    response = one_partition(PartitionData(records=records))
    parts = hot_fetch.encode_response(version, response)
    assert parts is not None
    assert wire.join(parts) == construct_encode(version, response)


@every_version
def test_aborted_transactions_are_not_declined(version: int) -> None:
    aborted = [AbortedTransaction(producer_id=1 << 40, first_offset=n) for n in range(200)]
    response = one_partition(PartitionData(aborted_transactions=aborted, records=b"x"))
    parts = hot_fetch.encode_response(version, response)
    assert parts is not None
    assert wire.join(parts) == construct_encode(version, response)


@every_version
@pytest.mark.parametrize(
    "data",
    [
        PartitionData(aborted_transactions=(AbortedTransaction(producer_id=1, first_offset=2),)),
        PartitionData(snapshot_id=SnapshotId(end_offset=1, epoch=2)),
        PartitionData(snapshot_id=SnapshotId()),
    ],
)
def test_aborted_and_tagged_are_left_to_construct_or_equal(
    version: int, data: PartitionData
) -> None:
    parts = hot_fetch.encode_response(version, one_partition(data))
    assert parts is None or wire.join(parts) == construct_encode(version, one_partition(data))


@every_version
def test_what_cannot_be_encoded_is_left_to_construct(version: int) -> None:
    assert hot_fetch.encode_response(version, FetchResponse(throttle_time_ms=1 << 40)) is None
    bad = FetchableTopicResponse(topic="n" * 40_000, topic_id=b"short")
    assert hot_fetch.encode_response(version, FetchResponse(responses=(bad,))) is None
