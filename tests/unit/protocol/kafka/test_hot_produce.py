"""Produce by hand equals Produce by construct, on good bytes and on bad ones, in every version."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.errors import DecodeError
from protocol.kafka import hot_produce, wire
from protocol.kafka.apis import PRODUCE
from protocol.kafka.messages.produce import (
    LeaderIdAndEpoch,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from tests.unit.protocol.kafka.samples import damaged, sample, values

every_version = pytest.mark.parametrize("version", PRODUCE.versions)


def by_construct(version: int, data: bytes) -> ProduceRequest | None:
    try:
        return wire.decode(ProduceRequest, version, data, flexible=PRODUCE.flexible(version))
    except DecodeError:
        return None


def construct_encode(version: int, message: object) -> bytes:
    return wire.join(wire.encode(message, version, flexible=PRODUCE.flexible(version)))


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
    whole = values(ProduceRequest, version).map(lambda v: construct_encode(version, v))
    bad = data.draw(st.binary(max_size=60) | damaged(whole))
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
    topic = TopicProduceData(name="größer", partition_data=(partition,) * 3)
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
    long = TopicProduceResponse(name="n" * 40_000)
    for version in PRODUCE.versions:
        for bad in (topic, long):
            assert hot_produce.encode_response(version, ProduceResponse(responses=(bad,))) is None
