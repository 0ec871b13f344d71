"""The table, and every message in every version: round trips, cuts, random and damaged bytes."""

import functools
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tailrace.protocol.errors import BadLength, DecodeError, ErrorCode, UnsupportedVersion
from tailrace.protocol.kafka import apis as a
from tailrace.protocol.kafka import codec, wire
from tailrace.protocol.kafka.api import Api
from tailrace.protocol.kafka.messages.produce import ProduceRequest, TopicProduceData
from tailrace.protocol.kafka.primitives import ELEMENTS_MAX
from tailrace.protocol.varint import write_unsigned
from tests.unit.protocol.kafka.samples import damaged, sample, values

VERSIONS = [(api, version) for api in a.APIS.values() for version in api.versions]
each = pytest.mark.parametrize(
    ("api", "version"), VERSIONS, ids=[f"{api.name}-{version}" for api, version in VERSIONS]
)
by_api = pytest.mark.parametrize("api", a.APIS.values(), ids=[api.name for api in a.APIS.values()])
some = settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])


def encoded_request(api: Api[Any, Any], version: int, seed: int) -> bytes:
    return codec.encode_request(api, version, sample(api.request, version, Random(seed)))


def encoded_response(api: Api[Any, Any], version: int, seed: int) -> bytes:
    response = sample(api.response, version, Random(seed))
    return wire.join(codec.encode_response(api, version, response))


@functools.cache
def bad_bytes(
    encoded: Callable[[Api[Any, Any], int, int], bytes], api: Api[Any, Any], version: int
) -> st.SearchStrategy[bytes]:
    whole = st.integers(0, 50).map(lambda seed: encoded(api, version, seed))
    return st.binary(max_size=80) | damaged(whole)


def test_the_versions_are_the_ones_promised() -> None:
    promised = {
        "ApiVersions": (0, 4), "Metadata": (0, 13), "Produce": (3, 13), "Fetch": (4, 18),
        "ListOffsets": (1, 11), "OffsetForLeaderEpoch": (2, 4), "FindCoordinator": (0, 6),
        "JoinGroup": (0, 9), "SyncGroup": (0, 5), "Heartbeat": (0, 4), "LeaveGroup": (0, 5),
        "OffsetCommit": (2, 10), "OffsetFetch": (1, 10), "ListGroups": (0, 5),
        "DescribeGroups": (0, 6), "InitProducerId": (0, 5), "AddPartitionsToTxn": (0, 5),
        "AddOffsetsToTxn": (0, 4), "EndTxn": (0, 5), "DescribeTransactions": (0, 0),
        "ListTransactions": (0, 2), "WriteTxnMarkers": (1, 2), "DescribeProducers": (0, 0),
        "CreateTopics": (2, 7), "DescribeLogDirs": (1, 5),
        "DeleteTopics": (1, 6), "CreatePartitions": (0, 3), "DeleteRecords": (0, 2),
        "DescribeConfigs": (1, 4), "AlterConfigs": (0, 2), "ListConfigResources": (0, 1),
        "IncrementalAlterConfigs": (0, 1), "DescribeCluster": (0, 2), "UpdateFeatures": (0, 2),
        "ElectLeaders": (0, 2), "AlterPartitionReassignments": (0, 1),
        "ListPartitionReassignments": (0, 0), "DescribeUserScramCredentials": (0, 0),
        "SaslHandshake": (0, 1), "SaslAuthenticate": (0, 2), "AlterUserScramCredentials": (0, 0),
        "DescribeTopicPartitions": (0, 0), "DeleteGroups": (0, 2), "OffsetDelete": (0, 0),
        "TxnOffsetCommit": (0, 5),
        "DescribeAcls": (1, 3), "CreateAcls": (1, 3), "DeleteAcls": (1, 3),
        "DescribeClientQuotas": (0, 1), "AlterClientQuotas": (0, 1),
        "CreateDelegationToken": (1, 3), "RenewDelegationToken": (1, 2),
        "ExpireDelegationToken": (1, 2), "DescribeDelegationToken": (1, 3),
        "ConsumerGroupHeartbeat": (0, 1), "ConsumerGroupDescribe": (0, 1),
    }  # fmt: skip
    assert {api.name: (api.versions[0], api.versions[-1]) for api in a.APIS.values()} == promised
    assert all(key == api.key for key, api in a.APIS.items())


def test_only_produce_advertises_more_than_it_decodes() -> None:
    assert a.PRODUCE.advertised == range(14)
    others = [api for api in a.APIS.values() if api is not a.PRODUCE]
    assert all(api.advertised == api.versions for api in others)


@by_api
@some
@given(data=st.data())
def test_requests_survive(api: Api[Any, Any], data: st.DataObject) -> None:
    version = data.draw(st.sampled_from(api.versions))
    message = data.draw(values(api.request, version))
    assert codec.decode_request(
        api, version, memoryview(codec.encode_request(api, version, message))
    ) == (message)


@by_api
@some
@given(data=st.data())
def test_responses_survive(api: Api[Any, Any], data: st.DataObject) -> None:
    version = data.draw(st.sampled_from(api.versions))
    message = data.draw(values(api.response, version))
    encoded = wire.join(codec.encode_response(api, version, message))
    if api is a.API_VERSIONS and message.error_code == ErrorCode.UNSUPPORTED_VERSION:
        # Whoever asked in a version that nobody knows is answered in the first one.
        found = codec.decode_response(api, 0, encoded)
        assert found.error_code == message.error_code
        version, message = 0, found
        encoded = wire.join(codec.encode_response(api, version, message))
    assert codec.decode_response(api, version, encoded) == message


@each
def test_cut_at_each_length_is_refused(api: Api[Any, Any], version: int) -> None:
    for seed in range(2):
        request = encoded_request(api, version, seed)
        for length in range(len(request)):
            with pytest.raises(DecodeError):
                codec.decode_request(api, version, memoryview(request[:length]))
        response = encoded_response(api, version, seed)
        for length in range(len(response)):
            with pytest.raises(DecodeError):
                codec.decode_response(api, version, response[:length])


@by_api
@some
@given(data=st.data())
def test_bad_bytes_give_a_message_or_a_decode_error(
    api: Api[Any, Any], data: st.DataObject
) -> None:
    version = data.draw(st.sampled_from(api.versions))
    request = data.draw(bad_bytes(encoded_request, api, version))
    response = data.draw(bad_bytes(encoded_response, api, version))
    for decode, body in ((codec.decode_request, request), (codec.decode_response, response)):
        try:
            decode(api, version, memoryview(body))  # type: ignore[operator]
        except DecodeError:
            continue


@each
def test_bytes_behind_a_message_are_ignored_as_kafka_does(api: Api[Any, Any], version: int) -> None:
    request = sample(api.request, version, Random(1))
    body = codec.encode_request(api, version, request) + b"\1\2\3"
    assert codec.decode_request(api, version, memoryview(body)) == request


@pytest.mark.parametrize("version", a.PRODUCE.versions)
def test_more_elements_than_a_message_may_have_are_refused(version: int) -> None:
    # Put together by hand: encoding all of them takes most of a second.
    none, one = (
        codec.encode_request(a.PRODUCE, version, ProduceRequest(topic_data=topics))
        for topics in ((), (TopicProduceData(),))
    )
    is_flexible = a.PRODUCE.flexible(version)
    counts, tail = ((b"\1", b"\2"), b"\0") if is_flexible else ((bytes(4), b"\0\0\0\1"), b"")
    head = none.removesuffix(counts[0] + tail)
    topic = one.removeprefix(head + counts[1]).removesuffix(tail)
    assert head + counts[1] + topic + tail == one
    count = ELEMENTS_MAX + 1
    packed = write_unsigned(count + 1) if is_flexible else count.to_bytes(4, "big")
    body = head + packed + topic * count + tail
    with pytest.raises(BadLength, match="elements"):
        codec.decode_request(a.PRODUCE, version, memoryview(body))


@by_api
def test_other_versions_are_refused(api: Api[Any, Any]) -> None:
    for version in (-1, api.versions.start - 1, api.versions.stop, 32767):
        for call in (
            lambda v=version: codec.decode_request(api, v, memoryview(b"")),
            lambda v=version: codec.decode_response(api, v, b""),
            lambda v=version: codec.encode_request(api, v, api.request()),
            lambda v=version: codec.encode_response(api, v, api.response()),
        ):
            with pytest.raises(UnsupportedVersion):
                call()


def test_the_table_cannot_be_changed() -> None:
    with pytest.raises(TypeError):
        a.APIS[0] = a.FETCH  # type: ignore[index]
