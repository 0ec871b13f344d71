"""Requests that are well formed and ask for what cannot be: Kafka's codes, no surprises."""

from collections.abc import Iterator
from typing import Any

import pytest

from tailrace.protocol.kafka.apis import (
    CREATE_PARTITIONS,
    CREATE_TOPICS,
    DELETE_RECORDS,
    FETCH,
    HEARTBEAT,
    JOIN_GROUP,
    LIST_OFFSETS,
    METADATA,
    OFFSET_COMMIT,
    OFFSET_FOR_LEADER_EPOCH,
    SYNC_GROUP,
)
from tailrace.protocol.kafka.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from tailrace.protocol.kafka.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tailrace.protocol.kafka.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from tailrace.protocol.kafka.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
)
from tailrace.protocol.kafka.messages.heartbeat import HeartbeatRequest
from tailrace.protocol.kafka.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
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
from tailrace.protocol.kafka.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tailrace.protocol.kafka.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.cluster.raw import (
    RawClient,
    batch,
    create_topic,
    fetch,
    fetch_request,
    produce,
    topic_id,
    values,
    wait_for_group,
)
from tests.process import TailraceProcess

INT32_MAX, INT64_MAX = (1 << 31) - 1, (1 << 63) - 1
OUT_OF_RANGE, UNKNOWN_TOPIC, NOT_FOUND_SESSION, UNKNOWN_TOPIC_ID = 1, 3, 70, 100
INVALID_REQUEST, UNSUPPORTED, FENCED_EPOCH, UNKNOWN_EPOCH = 42, 35, 74, 75
FIRST, SECOND = b"1" * 1000, b"2" * 1000


@pytest.fixture
def client(hostile: TailraceProcess, topic: str) -> Iterator[RawClient]:
    """A connection, and a topic with two batches of a kilobyte."""
    create_topic(hostile, topic)
    with RawClient(hostile) as connected:
        for value in (FIRST, SECOND):
            assert produce(connected, topic, batch(value)).error_code == 0
        yield connected


# ---- fetch


@pytest.mark.parametrize("limit", [0, 1, -1, -(1 << 31)])
def test_limits_below_one_batch_give_one_batch(client: RawClient, topic: str, limit: int) -> None:
    """At least one batch, whatever the limits: else a consumer would never get on."""
    assert values(fetch(client, topic, partition_max_bytes=limit)) == [FIRST]
    assert values(fetch(client, topic, max_bytes=limit)) == [FIRST]
    assert values(fetch(client, topic, max_bytes=limit, wait_ms=60_000)) == [FIRST]
    assert values(fetch(client, topic, 1, max_bytes=limit, partition_max_bytes=limit)) == [SECOND]


@pytest.mark.parametrize("offset", [-1, -2, -INT64_MAX - 1, 3, INT64_MAX])
def test_offsets_that_are_not_there(client: RawClient, topic: str, offset: int) -> None:
    for wait_ms in (0, 60_000):  # an error does not wait
        found = fetch(client, topic, offset, wait_ms=wait_ms)
        assert (found.error_code, found.high_watermark) == (OUT_OF_RANGE, -1)
        assert not found.records


def test_waits_that_are_none(client: RawClient, topic: str) -> None:
    for wait_ms in (0, -1, -INT32_MAX):
        assert values(fetch(client, topic, 2, wait_ms=wait_ms, min_bytes=INT32_MAX)) == []
    assert values(fetch(client, topic, 0, wait_ms=60_000, min_bytes=-5)) == [FIRST, SECOND]
    assert values(fetch(client, topic, 2, wait_ms=60_000, min_bytes=0)) == []
    assert values(fetch(client, topic, 0, wait_ms=20, min_bytes=INT32_MAX)) == [FIRST, SECOND]


def test_targets_of_a_fetch_that_are_not_there(client: RawClient, topic: str) -> None:
    assert fetch(client, topic + "-no", wait_ms=60_000).error_code == UNKNOWN_TOPIC
    assert fetch(client, "", wait_ms=60_000).error_code == UNKNOWN_TOPIC
    request = fetch_request(topic, wait_ms=60_000)
    request.topics[0].partitions = [
        FetchPartition(partition=index, partition_max_bytes=1000) for index in (-1, 1, INT32_MAX)
    ]
    answers = client.ask(FETCH, 11, request).responses[0].partitions
    assert [each.error_code for each in answers] == [UNKNOWN_TOPIC] * 3


def test_topic_ids_that_are_not_there(client: RawClient, topic: str) -> None:
    known = topic_id(client, topic)
    partitions = [FetchPartition(partition=0, partition_max_bytes=1 << 20)]
    wanted = [
        FetchTopic(topic_id=each, partitions=partitions) for each in (bytes(16), b"?" * 16, known)
    ]
    request = FetchRequest(max_wait_ms=100, min_bytes=INT32_MAX, topics=wanted)
    answer = client.ask(FETCH, 13, request)
    codes = [each.partitions[0].error_code for each in answer.responses]
    assert codes == [UNKNOWN_TOPIC_ID, UNKNOWN_TOPIC_ID, 0]
    assert values(answer.responses[2].partitions[0]) == [FIRST, SECOND]


@pytest.mark.parametrize(("session", "epoch"), [(1, 1), (0, 5), (77, INT32_MAX), (-9, -9)])
def test_sessions_that_are_not_there(
    client: RawClient, topic: str, session: int, epoch: int
) -> None:
    request = fetch_request(topic, wait_ms=60_000)
    request.session_id, request.session_epoch = session, epoch
    answer = client.ask(FETCH, 11, request)
    assert (answer.error_code, list(answer.responses)) == (NOT_FOUND_SESSION, [])


@pytest.mark.parametrize(("session", "epoch"), [(0, -1), (0, 0), (123, 0), (123, -1)])
def test_a_session_is_granted_to_those_who_begin_one(
    client: RawClient, topic: str, session: int, epoch: int
) -> None:
    request = fetch_request(topic)
    request.session_id, request.session_epoch = session, epoch
    answer = client.ask(FETCH, 11, request)
    assert (answer.error_code, answer.session_id > 0) == (0, epoch == 0)
    assert values(answer.responses[0].partitions[0]) == [FIRST, SECOND]


def test_a_session_that_forgets_what_it_never_had_goes_on(client: RawClient, topic: str) -> None:
    request = fetch_request(topic)
    request.session_epoch = 0
    begun = client.ask(FETCH, 11, request)
    gone = [ForgottenTopic(topic=name, partitions=[-1, 7, INT32_MAX]) for name in (topic, "", "x")]
    for epoch in (1, 2):
        going = FetchRequest(
            session_id=begun.session_id, session_epoch=epoch, forgotten_topics_data=gone * epoch
        )
        answer = client.ask(FETCH, 11, going)
        assert (answer.error_code, answer.session_id) == (0, begun.session_id)
        assert values(answer.responses[0].partitions[0]) == [FIRST, SECOND]


def test_epochs_of_others(client: RawClient, topic: str) -> None:
    request = fetch_request(topic, wait_ms=60_000)
    for epoch, code in ((0, FENCED_EPOCH), (INT32_MAX, UNKNOWN_EPOCH), (-2, FENCED_EPOCH)):
        request.topics[0].partitions[0].current_leader_epoch = epoch
        answer = client.ask(FETCH, 11, request)
        assert answer.responses[0].partitions[0].error_code == code


def test_a_partition_a_thousand_times(client: RawClient, topic: str) -> None:
    """It is answered once, as by Kafka: what names it last counts."""
    request = fetch_request(topic, max_bytes=10_000)
    request.topics[0].partitions = [request.topics[0].partitions[0]] * 1000
    assert len(client.ask(FETCH, 11, request).responses[0].partitions) == 1
    request.max_wait_ms, request.min_bytes, request.max_bytes = 50, INT32_MAX, INT32_MAX
    assert len(client.ask(FETCH, 11, request).responses[0].partitions) == 1


def test_a_fetch_of_nothing(client: RawClient) -> None:
    assert (
        list(client.ask(FETCH, 11, FetchRequest(max_wait_ms=60_000, min_bytes=1)).responses) == []
    )


# ---- offsets


def _list_offsets(client: RawClient, topic: str, *wanted: ListOffsetsPartition) -> list[Any]:
    request = ListOffsetsRequest(topics=[ListOffsetsTopic(name=topic, partitions=wanted)])
    return list(client.ask(LIST_OFFSETS, 9, request).topics[0].partitions)


def test_the_same_partition_twice_in_list_offsets(client: RawClient, topic: str) -> None:
    once = ListOffsetsPartition(partition_index=0, timestamp=-1)
    twice = _list_offsets(client, topic, once, once, ListOffsetsPartition(partition_index=7))
    assert [each.error_code for each in twice] == [INVALID_REQUEST, INVALID_REQUEST, UNKNOWN_TOPIC]
    assert _list_offsets(client, topic, once)[0].offset == 2


@pytest.mark.parametrize(
    ("timestamp", "code", "offset"),
    [(-99, UNSUPPORTED, -1), (-6, UNSUPPORTED, -1), (-INT64_MAX - 1, UNSUPPORTED, -1),
     (INT64_MAX, 0, -1), (0, 0, 0), (2, 0, -1), (-5, 0, -1), (-2, 0, 0)],
)  # fmt: skip
def test_timestamps(client: RawClient, topic: str, timestamp: int, code: int, offset: int) -> None:
    wanted = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    found = _list_offsets(client, topic, wanted)[0]
    assert (found.error_code, found.offset) == (code, offset)


def test_the_largest_timestamp_needs_list_offsets_v7(client: RawClient, topic: str) -> None:
    wanted = ListOffsetsPartition(partition_index=0, timestamp=-3)
    request = ListOffsetsRequest(topics=[ListOffsetsTopic(name=topic, partitions=[wanted])])
    old = client.ask(LIST_OFFSETS, 6, request).topics[0].partitions[0]
    new = client.ask(LIST_OFFSETS, 7, request).topics[0].partitions[0]
    assert (old.error_code, new.error_code, new.offset) == (UNSUPPORTED, 0, 0)


def test_targets_and_epochs_of_list_offsets(client: RawClient, topic: str) -> None:
    found = _list_offsets(
        client, topic,
        ListOffsetsPartition(partition_index=-1, timestamp=-1),
        ListOffsetsPartition(partition_index=INT32_MAX, timestamp=-1),
        ListOffsetsPartition(partition_index=0, timestamp=-1, current_leader_epoch=INT32_MAX),
    )  # fmt: skip
    assert [each.error_code for each in found] == [UNKNOWN_TOPIC, UNKNOWN_TOPIC, UNKNOWN_EPOCH]


def test_leader_epochs_that_never_were(client: RawClient, topic: str) -> None:
    def ask(epoch: int) -> tuple[int, int, int]:
        wanted = OffsetForLeaderPartition(partition=0, leader_epoch=epoch)
        request = OffsetForLeaderEpochRequest(
            replica_id=-1, topics=[OffsetForLeaderTopic(topic=topic, partitions=[wanted])]
        )
        found = client.ask(OFFSET_FOR_LEADER_EPOCH, 4, request).topics[0].partitions[0]
        return found.error_code, found.leader_epoch, found.end_offset

    assert ask(-1) == (0, -1, -1)
    assert ask(-INT32_MAX) == (0, -INT32_MAX, 0)  # older than the list: ends where that begins
    assert ask(0) == (0, 0, 0)
    assert ask(INT32_MAX) == (0, -1, -1)


@pytest.mark.parametrize(
    ("offset", "code", "low"),
    [(3, OUT_OF_RANGE, -1), (-2, OUT_OF_RANGE, -1), (INT64_MAX, OUT_OF_RANGE, -1), (1, 0, 1)],
)
def test_records_to_delete(client: RawClient, topic: str, offset: int, code: int, low: int) -> None:
    wanted = DeleteRecordsPartition(partition_index=0, offset=offset)
    request = DeleteRecordsRequest(
        timeout_ms=30_000, topics=[DeleteRecordsTopic(name=topic, partitions=[wanted])]
    )
    found = client.ask(DELETE_RECORDS, 2, request).topics[0].partitions[0]
    assert (found.error_code, found.low_watermark) == (code, low)


# ---- topics


@pytest.mark.parametrize(
    ("partitions", "replicas"), [(INT32_MAX, 1), (1_000_000, 1), (0, 1), (-5, 1), (1, 32767)]
)
def test_topics_of_impossible_size(
    hostile: TailraceProcess, topic: str, partitions: int, replicas: int
) -> None:
    wanted = CreatableTopic(name=topic, num_partitions=partitions, replication_factor=replicas)
    with RawClient(hostile) as client:
        request = CreateTopicsRequest(topics=[wanted], timeout_ms=30_000)
        answer = client.ask(CREATE_TOPICS, 5, request)
    assert answer.topics[0].error_code != 0


@pytest.mark.parametrize("count", [INT32_MAX, 1_000_000, 1, 0, -7])
def test_partitions_of_impossible_number(client: RawClient, topic: str, count: int) -> None:
    wanted = CreatePartitionsTopic(name=topic, count=count)
    request = CreatePartitionsRequest(topics=[wanted], timeout_ms=30_000)
    assert client.ask(CREATE_PARTITIONS, 3, request).results[0].error_code != 0
    assert values(fetch(client, topic)) == [FIRST, SECOND]


@pytest.mark.parametrize(
    "name", ["", ".", "..", "a/b", "../x", "a b", "ä", "\0", "x" * 250, "\x1b["]
)
def test_topic_names_that_are_none(hostile: TailraceProcess, name: str) -> None:
    with RawClient(hostile) as client:
        created = client.ask(
            CREATE_TOPICS, 5,
            CreateTopicsRequest(topics=[CreatableTopic(name=name, num_partitions=1)]),
        )  # fmt: skip
        found = client.ask(METADATA, 4, MetadataRequest(topics=[MetadataRequestTopic(name=name)]))
    assert created.topics[0].error_code == 17
    assert found.topics[0].error_code == 17


@pytest.mark.parametrize("version", [10, 11])
@pytest.mark.parametrize("name", [None, "any"])
def test_topic_ids_in_metadata_before_v12(
    client: RawClient, topic: str, version: int, name: str | None
) -> None:
    """They are on the wire from v10 on, and may not be used before v12."""
    by_id = MetadataRequestTopic(topic_id=topic_id(client, topic), name=name)
    asked = MetadataRequest(topics=[by_id, MetadataRequestTopic(name=topic)])
    answers = client.ask(METADATA, version, asked).topics
    assert [(each.name, each.error_code) for each in answers] == [
        (name or "", INVALID_REQUEST),
        (topic, INVALID_REQUEST),
    ]


# ---- groups


@pytest.fixture
def member(hostile: TailraceProcess, topic: str) -> Iterator[RawClient]:
    """A connection to the coordinator of a group that is called as the topic."""
    with RawClient(hostile) as connected:
        wait_for_group(connected, topic)
        yield connected


def test_groups_that_are_none(member: RawClient, topic: str) -> None:
    assert member.ask(JOIN_GROUP, 5, _join("")).error_code == 24
    assert member.ask(JOIN_GROUP, 5, _join(topic, timeout_ms=-1)).error_code == 26
    assert member.ask(JOIN_GROUP, 5, _join(topic, timeout_ms=INT32_MAX)).error_code == 26
    assert member.ask(JOIN_GROUP, 5, _join(topic, member="nobody")).error_code == 25
    heartbeat = HeartbeatRequest(group_id=topic, generation_id=3, member_id="nobody")
    assert member.ask(HEARTBEAT, 3, heartbeat).error_code == 25


def test_an_assignment_that_no_log_takes(member: RawClient, topic: str) -> None:
    """Kafka too cannot store it and says UNKNOWN_SERVER_ERROR; the group can go on."""
    name = member.ask(JOIN_GROUP, 3, _join(topic)).member_id
    codes = []
    for size in (8 << 20, 100):
        joined = member.ask(JOIN_GROUP, 3, _join(topic, member=name))
        assert joined.error_code == 0
        request = SyncGroupRequest(
            group_id=topic,
            generation_id=joined.generation_id,
            member_id=name,
            assignments=[SyncGroupRequestAssignment(member_id=name, assignment=bytes(size))],
        )
        codes.append(member.ask(SYNC_GROUP, 3, request).error_code)
    assert codes == [-1, 0]


def test_commits_that_are_too_much(hostile: TailraceProcess, member: RawClient, topic: str) -> None:
    create_topic(hostile, topic)
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
    request = OffsetCommitRequest(
        group_id=topic, topics=[OffsetCommitRequestTopic(name=topic, partitions=[partition])]
    )
    codes = []
    for size in (5000, 100):
        partition.committed_metadata = "x" * size
        answer = member.ask(OFFSET_COMMIT, 7, request)
        codes.append(answer.topics[0].partitions[0].error_code)
    assert codes == [12, 0]


def _join(group: str, *, timeout_ms: int = 30_000, member: str = "") -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=timeout_ms,
        rebalance_timeout_ms=30_000,
        member_id=member,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"m")],
    )
