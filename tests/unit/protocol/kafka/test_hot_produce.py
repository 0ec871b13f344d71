"""Produce by hand equals Produce by construct, on good bytes and on bad ones, in every version."""

import functools
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.protocol.errors import BadLength, DecodeError
from tailrace.protocol.kafka import codec, hot_produce, wire
from tailrace.protocol.kafka.apis import PRODUCE
from tailrace.protocol.kafka.messages.produce import (
    LeaderIdAndEpoch,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from tests.unit.protocol.kafka.samples import damaged, sample, values

ID = bytes(range(16))
every_version = pytest.mark.parametrize("version", range(3, 14))


def named(version: int, name: str) -> dict[str, Any]:
    """Return how a version names a topic."""
    return {"topic_id": ID} if version >= 13 else {"name": name}


def by_construct(version: int, data: bytes) -> ProduceRequest | None:
    try:
        return wire.decode(ProduceRequest, version, data, flexible=PRODUCE.flexible(version))
    except DecodeError:
        return None


def construct_encode(version: int, message: object) -> bytes:
    return wire.join(wire.encode(message, version, flexible=PRODUCE.flexible(version)))


@functools.cache
def bad_bytes(version: int) -> st.SearchStrategy[bytes]:
    whole = values(ProduceRequest, version).map(lambda v: construct_encode(version, v))
    return st.binary(max_size=60) | damaged(whole)


@pytest.mark.parametrize("version", [8, 12, 13])
def test_a_produce_names_so_many_topics_and_partitions_at_most(version: int) -> None:
    def encoded(partitions: int) -> memoryview:
        data = [PartitionProduceData(index=each, records=b"r") for each in range(partitions)]
        topic = TopicProduceData(**named(version, "t"), partition_data=data)
        return memoryview(construct_encode(version, ProduceRequest(topic_data=[topic])))

    most = hot_produce.ELEMENTS_MAX - 1  # and the topic
    request = codec.decode_request(PRODUCE, version, encoded(most))
    assert len(request.topic_data[0].partition_data) == most
    with pytest.raises(BadLength, match="elements in one message"):
        codec.decode_request(PRODUCE, version, encoded(most + 1))


@every_version
@settings(max_examples=50)
@given(data=st.data())
def test_requests_decode_as_by_construct(version: int, data: st.DataObject) -> None:
    encoded = construct_encode(version, data.draw(values(ProduceRequest, version)))
    ours = hot_produce.decode_request(version, memoryview(encoded))
    assert ours in (None, by_construct(version, encoded))


@every_version
@settings(max_examples=50)
@given(data=st.data())
def test_what_construct_refuses_is_declined(version: int, data: st.DataObject) -> None:
    bad = data.draw(bad_bytes(version))
    ours = hot_produce.decode_request(version, memoryview(bad))
    assert ours is None or ours == by_construct(version, bad)


@every_version
@settings(max_examples=50)
@given(data=st.data())
def test_responses_encode_as_by_construct(version: int, data: st.DataObject) -> None:
    response = data.draw(values(ProduceResponse, version))
    parts = hot_produce.encode_response(version, response)
    assert parts is None or wire.join(parts) == construct_encode(version, response)


@every_version
def test_plain_ones_are_not_declined_and_not_copied(version: int) -> None:
    partition = PartitionProduceData(index=1, records=b"r" * 20_000)
    topic = TopicProduceData(**named(version, "größer"), partition_data=(partition,) * 3)
    for transactional_id in (None, "", "id"):
        request = ProduceRequest(
            transactional_id=transactional_id, acks=-1, timeout_ms=9, topic_data=(topic, topic)
        )
        body = memoryview(bytearray(construct_encode(version, request)))
        decoded = hot_produce.decode_request(version, body)
        assert decoded == request
        records = decoded.topic_data[0].partition_data[0].records
        assert isinstance(records, memoryview)
        assert records.obj is body.obj
        assert not records.readonly  # so that offsets can be stamped in place


@pytest.mark.parametrize("size", [0, 1, 126, 127, 128, 16_382, 16_383, 2_097_150, 2_097_151])
@pytest.mark.parametrize(
    ("version", "name"),
    [(11, "t"), (11, "n" * 126), (12, "n" * 127), (11, "ö"), (13, "")],
    ids=["t", "126", "127", "ö", "id"],
)
def test_one_partition_is_read_whatever_its_size_and_damaged_as_construct_does(
    version: int, name: str, size: int
) -> None:
    topic = TopicProduceData(
        **named(version, name), partition_data=(PartitionProduceData(index=7, records=b"r" * size),)
    )
    request = ProduceRequest(acks=1, timeout_ms=9, topic_data=(topic,))
    whole = construct_encode(version, request)
    assert hot_produce.decode_request(version, memoryview(whole)) == request
    assert hot_produce.decode_request(version, memoryview(whole + b"more")) == request, "as Kafka"
    if size > 20_000:
        return  # damage is the same for all, and large frames are slow to damage
    frame = range(min(len(whole), len(name.encode()) + 20))
    for at in (*frame, len(whole) - 3, len(whole) - 2, len(whole) - 1):
        for bad in (whole[:at], *(whole[:at] + bytes([b]) + whole[at + 1 :] for b in (0, 2, 0xFF))):
            ours = hot_produce.decode_request(version, memoryview(bad))
            assert ours is None or ours == by_construct(version, bad)


@every_version
def test_one_result_is_written_as_construct_does(version: int) -> None:
    changes: list[dict[str, Any]] = [
        {},
        {"error_code": 6, "base_offset": -1},
        {"error_message": "why"},
        {"log_append_time_ms": 1 << 40, "log_start_offset": 5},
        {"index": -1},
    ]
    for change in changes:
        result = PartitionProduceResponse(**{"index": 3, **change})
        for throttle in (0, 77):
            response = ProduceResponse(
                responses=(
                    TopicProduceResponse(**named(version, "größer"), partition_responses=(result,)),
                ),
                throttle_time_ms=throttle,
            )
            parts = hot_produce.encode_response(version, response)
            assert parts is not None
            assert wire.join(parts) == construct_encode(version, response)


@every_version
def test_plain_answers_are_not_declined(version: int) -> None:
    for seed in range(40):
        response = sample(ProduceResponse, version, Random(seed), plain=True)
        plain = all(not r.record_errors for t in response.responses for r in t.partition_responses)
        parts = hot_produce.encode_response(version, response)
        assert (parts is not None) == plain


def test_fields_that_a_version_does_not_have_do_not_matter() -> None:
    leader = LeaderIdAndEpoch(leader_id=1, leader_epoch=2)
    result = PartitionProduceResponse(index=1, current_leader=leader, error_message="m")
    response = ProduceResponse(
        responses=(TopicProduceResponse(name="t", partition_responses=(result,)),)
    )
    for version in PRODUCE.versions:
        parts = hot_produce.encode_response(version, response)
        assert parts is None or wire.join(parts) == construct_encode(version, response)


def test_what_cannot_be_encoded_is_left_to_construct() -> None:
    result = PartitionProduceResponse(index=1 << 40)
    topic = TopicProduceResponse(name="t", partition_responses=(result,))
    long = TopicProduceResponse(name="n" * 40_000, topic_id=b"short")
    for version in PRODUCE.versions:
        for bad in (topic, long):
            assert hot_produce.encode_response(version, ProduceResponse(responses=(bad,))) is None
