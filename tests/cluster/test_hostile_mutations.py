"""Damaged copies of good requests, of every API and version, against a live broker.

After each the broker must still answer somebody else. What it answers to the damaged request itself
is its business: an error, an answer (the damage may make another good request), or the end.
"""

import random
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tailrace.protocol.kafka.api import Api
from tailrace.protocol.kafka.apis import APIS
from tailrace.protocol.kafka.codec import encode_request
from tailrace.protocol.kafka.header import RequestHeader, request_frame
from tailrace.protocol.kafka.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tailrace.protocol.kafka.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tailrace.protocol.kafka.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from tailrace.protocol.kafka.messages.metadata import MetadataRequest, MetadataRequestTopic
from tailrace.protocol.kafka.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.cluster.raw import (
    Closed,
    RawClient,
    ask_api_versions,
    batch,
    create_topic,
    produce_request,
)
from tests.process import TailraceProcess
from tests.unit.protocol.kafka.samples import sample

TOPIC = "mutated"
ARBITRARY = settings(
    max_examples=300,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)

FULL: dict[str, Any] = {
    "Produce": produce_request(TOPIC, bytes(batch(b"value"))),
    "Fetch": FetchRequest(
        max_wait_ms=1,
        min_bytes=1,
        topics=[FetchTopic(topic=TOPIC, partitions=[FetchPartition(partition_max_bytes=1 << 20)])],
    ),
    "ListOffsets": ListOffsetsRequest(
        topics=[ListOffsetsTopic(name=TOPIC, partitions=[ListOffsetsPartition(timestamp=-1)])]
    ),
    "Metadata": MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)]),
    "OffsetCommit": OffsetCommitRequest(
        group_id="g",
        topics=[
            OffsetCommitRequestTopic(
                name=TOPIC, partitions=[OffsetCommitRequestPartition(committed_offset=1)]
            )
        ],
    ),
    "CreateTopics": CreateTopicsRequest(
        topics=[CreatableTopic(name=TOPIC, num_partitions=1, replication_factor=1)]
    ),
}
"""Requests with something in them; of the other APIs the default one is sent."""


def _requests() -> list[tuple[Api[Any, Any], int]]:
    return [(api, version) for api in APIS.values() for version in api.versions]


def _frame(api: Api[Any, Any], version: int) -> bytes:
    message = FULL.get(api.name) or api.request()
    header = RequestHeader(api.key, version, 7, "mutant")
    return request_frame(api, header, encode_request(api, version, message))


frames = st.sampled_from(_requests()).map(lambda chosen: _frame(*chosen))


@st.composite
def mutants(draw: st.DrawFn) -> bytes:
    """Yield good frames with a few things done to them; the size is right, or it is not."""
    data = bytearray(draw(frames))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(4, len(data)))
        kind = draw(st.sampled_from(("flip", "set", "cut", "insert", "repeat")))
        if kind == "flip" and at < len(data):
            data[at] ^= 1 << draw(st.integers(0, 7))
        elif kind == "set":
            value = draw(
                st.sampled_from((b"\xff", b"\xff\xff", b"\x7f\xff\xff\xff", b"\x80", b"\0"))
            )
            data[at : at + len(value)] = value
        elif kind == "cut":
            del data[at:]
        elif kind == "insert":
            data[at:at] = draw(st.binary(min_size=1, max_size=20))
        elif kind == "repeat":
            data += data[at : at + 50] * draw(st.integers(1, 20))
    if draw(st.integers(0, 9)):
        data[:4] = (len(data) - 4).to_bytes(4, "big")
    return bytes(data)


@pytest.fixture(scope="module")
def _topic(small_broker: TailraceProcess) -> None:
    create_topic(small_broker, TOPIC)


@pytest.fixture
def attacked(hostile: TailraceProcess, _topic: None) -> TailraceProcess:
    return hostile


@ARBITRARY
@given(mutant=mutants())
def test_a_damaged_request_is_nobody_elses_business(
    attacked: TailraceProcess, mutant: bytes
) -> None:
    _attack(attacked, mutant)


@settings(ARBITRARY, max_examples=40)
@given(parts=st.lists(frames | mutants(), min_size=2, max_size=12))
def test_good_and_damaged_requests_in_one_pipeline(
    attacked: TailraceProcess, parts: list[bytes]
) -> None:
    _attack(attacked, b"".join(parts))


@settings(ARBITRARY, max_examples=40)
@given(records=st.binary(max_size=200), at=st.integers(0, 80), codec=st.integers(0, 7))
def test_damaged_batches_are_answered(
    attacked: TailraceProcess, records: bytes, at: int, codec: int
) -> None:
    whole = bytearray(batch(b"value" * 3, codec=codec % 5))
    whole[at : at + len(records) // 8] = records[: len(records) // 8]
    for damaged in (bytes(whole), records):
        with RawClient(attacked) as client:
            api = APIS[0]
            answer = client.ask(api, 9, produce_request(TOPIC, damaged))
            assert len(answer.responses[0].partition_responses) == 1


@pytest.mark.parametrize("plain", [True, False])
def test_any_values_in_good_requests(attacked: TailraceProcess, *, plain: bool) -> None:
    """Every API in every version, filled by chance: numbers at their edges, odd names, nulls."""
    seed = random.SystemRandom().randrange(1 << 32)
    source = random.Random(seed)
    for api, version in _requests() * 3:
        message = sample(api.request, version, source, plain=plain)
        header = RequestHeader(api.key, version, 7, "sample")
        try:
            _attack(attacked, request_frame(api, header, encode_request(api, version, message)))
        except Closed:
            pytest.fail(f"seed {seed}, {api.name} v{version}: {message}")


def _attack(broker: TailraceProcess, data: bytes) -> None:
    """Send it, and ask what every client asks first on another connection while this is open."""
    with RawClient(broker) as client:
        with suppress(Closed):
            client.send_bytes(data)
        assert ask_api_versions(broker).error_code == 0
