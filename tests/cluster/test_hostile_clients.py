"""Clients that behave badly in time: that stall, flood, never read, or go. Others go on."""

from contextlib import ExitStack

import pytest

from tailrace.protocol.kafka.apis import API_VERSIONS, FETCH, LIST_OFFSETS, METADATA, PRODUCE
from tailrace.protocol.kafka.header import RequestHeader, encode_request_header
from tailrace.protocol.kafka.messages.api_versions import ApiVersionsRequest
from tailrace.protocol.kafka.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from tailrace.protocol.kafka.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.cluster.conftest import MEBIBYTE
from tests.cluster.raw import (
    RawClient,
    all_values,
    ask_api_versions,
    batch,
    create_topic,
    fetch_request,
    produce,
    produce_request,
    values,
)
from tests.cluster.watching import Bystander, lines_about
from tests.process import TailraceProcess

ANY = ApiVersionsRequest()


@pytest.fixture
def memory_allowed() -> int:
    """All budgets at once, some of them doubly, and what their buffers leave behind."""
    return 224 * MEBIBYTE


CLAIM = (100 * MEBIBYTE).to_bytes(4, "big")


# ---- idle, stalled, slow


def test_a_thousand_idle_connections(hostile: TailraceProcess, bystander: Bystander) -> None:
    with ExitStack() as stack:
        clients = [stack.enter_context(RawClient(hostile)) for _ in range(1000)]
        bystander.wait_for_rounds()
        for client in clients:
            client.send(API_VERSIONS, 0, ANY)
        for client in clients:
            assert client.receive_as(API_VERSIONS, 0)[1].error_code == 0
        bystander.wait_for_rounds()


def test_headers_without_their_requests(hostile: TailraceProcess, bystander: Bystander) -> None:
    """Each says that 100 MiB will follow, and nothing does: memory follows bytes, not words."""
    with ExitStack() as stack:
        for more in (b"", b"\x00", bytes(100)) * 10:
            client = stack.enter_context(RawClient(hostile))
            client.send_bytes(CLAIM + more)
        bystander.wait_for_rounds()
        assert ask_api_versions(hostile).error_code == 0


def test_half_sizes(hostile: TailraceProcess, bystander: Bystander) -> None:
    with ExitStack() as stack:
        for size in (1, 2, 3) * 20:
            stack.enter_context(RawClient(hostile)).send_bytes(bytes(size))
        bystander.wait_for_rounds()


def test_many_large_requests_that_are_never_finished(
    hostile: TailraceProcess, bystander: Bystander
) -> None:
    """What came of them is bounded together, and who sends little is not made to wait for it."""
    with ExitStack() as stack:
        for _ in range(8):
            client = stack.enter_context(RawClient(hostile))
            client.send_bytes(CLAIM)
            client.send_until_blocked(bytes(MEBIBYTE), 20, patience_s=0.2)
        bystander.wait_for_rounds()


def test_clients_that_never_read(
    hostile: TailraceProcess, bystander: Bystander, topic: str
) -> None:
    """8 MiB are asked for 12,000 times, by sixty clients that take nothing; others get theirs."""
    create_topic(hostile, topic)
    with RawClient(hostile) as client:
        for number in range(12):
            large = batch(b"%d" % number + bytes(1_000_000))
            assert produce(client, topic, large).base_offset == number
    with ExitStack() as stack:
        for _ in range(60):
            client = stack.enter_context(RawClient(hostile, receive_buffer=4096))
            request = client.frame(FETCH, 11, fetch_request(topic, partition_max_bytes=1 << 30))
            client.send_until_blocked(request, 200, patience_s=0.2)
        bystander.wait_for_rounds(30)


def test_a_flood_of_questions_by_one_that_never_reads(
    hostile: TailraceProcess, bystander: Bystander, topic: str
) -> None:
    """It is not read any more when its answers are not taken."""
    with RawClient(hostile, receive_buffer=4096) as client:
        question = client.frame(METADATA, 4, MetadataRequest(topics=None))
        sent = client.send_until_blocked(question * 1000, 3000, patience_s=1)
        assert sent < 3000
        bystander.wait_for_rounds()


@pytest.mark.parametrize("version", [0, 99])
def test_a_flood_behind_a_request_that_waits(
    hostile: TailraceProcess, bystander: Bystander, topic: str, version: int
) -> None:
    """The fetch waits for minutes, and what comes behind it must not be kept without a bound."""
    create_topic(hostile, topic)
    with RawClient(hostile) as client:
        client.send(FETCH, 11, fetch_request(topic, wait_ms=200_000))
        header = RequestHeader(API_VERSIONS.key, version, 1, "c" * 40)
        payload = encode_request_header(API_VERSIONS, header)
        flood = (len(payload).to_bytes(4, "big") + payload) * 2000
        sent = client.send_until_blocked(flood, 1000, patience_s=1)
        assert sent < 1000
        bystander.wait_for_rounds()


def test_a_flood_of_batches_that_nobody_waits_for(
    hostile: TailraceProcess, bystander: Bystander, topic: str
) -> None:
    """With acks=0 nothing slows the client but the socket that is not read."""
    create_topic(hostile, topic)
    with RawClient(hostile) as client:
        flood = client.frame(PRODUCE, 9, produce_request(topic, batch(bytes(1_000_000)), acks=0))
        for _ in range(150):
            client.send_bytes(flood)
        bystander.wait_for_rounds()
        assert produce(client, topic, batch(b"end")).base_offset == 150


def test_large_requests_behind_one_that_waits(
    hostile: TailraceProcess, bystander: Bystander, topic: str
) -> None:
    """They are whole and wait for their turn, for minutes: nobody else may run out of room."""
    create_topic(hostile, topic)
    with ExitStack() as stack:
        for _ in range(3):
            client = stack.enter_context(RawClient(hostile))
            client.send(FETCH, 11, fetch_request(topic, wait_ms=200_000))
            header = encode_request_header(METADATA, RequestHeader(METADATA.key, 1, 2, "c"))
            size = 30 * MEBIBYTE
            client.send_bytes((len(header) + size).to_bytes(4, "big") + header)
            client.send_until_blocked(bytes(MEBIBYTE), 30, patience_s=0.2)
        bystander.wait_for_rounds()


def test_large_answers_are_right_for_one_who_reads_late(
    hostile: TailraceProcess, topic: str
) -> None:
    """A client that is slow, but no enemy, gets everything, in order."""
    create_topic(hostile, topic)
    sent = [b"%d" % number + bytes(500_000) for number in range(8)]
    with RawClient(hostile, receive_buffer=4096) as client:
        for each in sent:
            assert produce(client, topic, batch(each)).error_code == 0
        for _ in range(6):
            client.send(FETCH, 11, fetch_request(topic, partition_max_bytes=1 << 30))
        for _ in range(6):
            answer = client.receive_as(FETCH, 11)[1]
            assert values(answer.responses[0].partitions[0]) == sent


# ---- pipelines


def test_hundreds_of_pipelined_requests_are_answered_in_order(
    hostile: TailraceProcess, topic: str
) -> None:
    create_topic(hostile, topic)
    wanted = MetadataRequest(topics=[MetadataRequestTopic(name=topic)])
    latest = ListOffsetsPartition(partition_index=0, timestamp=-1)
    offsets = ListOffsetsRequest(topics=[ListOffsetsTopic(name=topic, partitions=[latest])])
    with RawClient(hostile) as client:
        frames, expected = [], []
        for number in range(100):
            for api, version, message in (
                (PRODUCE, 9, produce_request(topic, batch(b"%d" % number))),
                (METADATA, 8, wanted),
                (LIST_OFFSETS, 5, offsets),
                (API_VERSIONS, 0, ANY),
                (FETCH, 11, fetch_request(topic, number, wait_ms=60_000)),
                (PRODUCE, 3, produce_request(topic, batch(b"unseen"), acks=0)),
            ):
                frames.append(client.frame(api, version, message))
                if version != 3:
                    expected.append((api, version, len(frames)))
        client.send_bytes(b"".join(frames))
        produced = []
        for api, version, correlation_id in expected:
            answered, answer = client.receive_any(api, version)
            assert answered == correlation_id
            if api is PRODUCE:
                produced.append(answer.responses[0].partition_responses[0].base_offset)
        assert produced == list(range(0, 200, 2))
        assert all_values(client, topic)[::2] == [b"%d" % number for number in range(100)]


def test_requests_behind_one_that_waits(hostile: TailraceProcess, topic: str) -> None:
    """More of them than are taken at once; a produce of another client ends the wait."""
    create_topic(hostile, topic)
    with RawClient(hostile) as client:
        first = client.frame(FETCH, 11, fetch_request(topic, wait_ms=200_000))
        client.send_bytes(first + b"".join(client.frame(API_VERSIONS, 0, ANY) for _ in range(500)))
        assert not client.has_answer()
        with RawClient(hostile) as other:
            assert produce(other, topic, batch(b"now")).error_code == 0
        assert values(client.receive_as(FETCH, 11)[1].responses[0].partitions[0]) == [b"now"]
        answered = [client.receive_as(API_VERSIONS, 0)[0] for _ in range(500)]
    assert answered == list(range(2, 502))


def test_bad_requests_behind_one_that_waits(hostile: TailraceProcess, topic: str) -> None:
    """Its body is looked at only when its turn comes: then the connection ends, with one line."""
    create_topic(hostile, topic)
    header = encode_request_header(METADATA, RequestHeader(METADATA.key, 1, 2, "c"))
    bad = (len(header) + 4).to_bytes(4, "big") + header + b"\x7f\xff\xff\xff"
    with RawClient(hostile) as client:
        client.send_bytes(client.frame(FETCH, 11, fetch_request(topic, wait_ms=100)) + bad)
        client.receive_as(FETCH, 11)
        assert client.is_closed_by_broker()
    assert len(lines_about(hostile, client)) == 1


# ---- those that go


def test_clients_that_go_while_their_requests_wait(
    hostile: TailraceProcess, bystander: Bystander, topic: str
) -> None:
    create_topic(hostile, topic)
    for number in range(100):
        with RawClient(hostile) as client:
            client.send(FETCH, 11, fetch_request(topic, wait_ms=200_000))
            client.send(METADATA, 4, MetadataRequest(topics=None))
            if number % 2:
                client.reset()
    bystander.wait_for_rounds()


def test_clients_that_go_while_they_are_answered(hostile: TailraceProcess, topic: str) -> None:
    create_topic(hostile, topic)
    with RawClient(hostile) as client:
        for _ in range(4):
            assert produce(client, topic, batch(bytes(1_000_000))).error_code == 0
    for number in range(40):
        with RawClient(hostile, receive_buffer=4096) as client:
            client.send(FETCH, 11, fetch_request(topic, partition_max_bytes=1 << 30))
            client.receive_some()
            if number % 2:
                client.reset()


def test_produces_of_clients_that_go_are_in_order_and_whole(
    hostile: TailraceProcess, topic: str
) -> None:
    create_topic(hostile, topic)
    for number in range(30):
        with RawClient(hostile) as client:
            client.send(PRODUCE, 9, produce_request(topic, batch(b"%d" % number)))
            client.send(PRODUCE, 9, produce_request(topic, batch(b"%d again" % number)))
            client.reset()
    with RawClient(hostile) as client:
        assert produce(client, topic, batch(b"end")).error_code == 0
        found = all_values(client, topic)
    assert found[-1] == b"end"
    assert len(set(found)) == len(found)
