"""Record batches that a broker must refuse, by Kafka's codes, and the connection goes on."""

import gzip
import struct
from collections.abc import Callable, Iterator

import cramjam
import lz4.frame
import pytest

from tailrace.protocol.kafka.apis import API_VERSIONS, PRODUCE
from tailrace.protocol.kafka.messages.api_versions import ApiVersionsRequest
from tailrace.protocol.kafka.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from tailrace.protocol.records.batch import (
    HEADER_SIZE,
    LOG_OVERHEAD,
    pack_header,
    read_header,
    stamp_crc,
)
from tailrace.protocol.records.record import Producer
from tests.cluster.raw import (
    Closed,
    RawClient,
    all_values,
    batch,
    create_topic,
    produce,
    produce_request,
    producer_id,
)
from tests.cluster.watching import lines_about, memory
from tests.process import TailraceProcess

MEBIBYTE = 1 << 20
CORRUPT_MESSAGE, UNKNOWN_TOPIC, TOO_LARGE, INVALID_TOPIC, BAD_ACKS = 2, 3, 10, 17, 21
BAD_TIMESTAMP, OUT_OF_ORDER, BAD_EPOCH, BAD_COMPRESSION, INVALID_RECORD = 32, 45, 47, 76, 87


def _with_header(**changes: int) -> bytes:
    """Return a batch of two records that is right but for some fields; its CRC is right."""
    whole = batch(b"one", b"two")
    changed = bytearray(pack_header(read_header(whole)._replace(**changes)) + whole[HEADER_SIZE:])
    if "magic" not in changes and "batch_length" not in changes:
        stamp_crc(changed)
    return bytes(changed)


def _with_payload(codec: int, payload: bytes) -> bytes:
    """Return a batch of two records with these bytes instead of them; its CRC is right."""
    header = read_header(batch(b"one", b"two"))
    length = HEADER_SIZE - LOG_OVERHEAD + len(payload)
    changed = bytearray(
        pack_header(header._replace(attributes=codec, batch_length=length)) + payload
    )
    stamp_crc(changed)
    return bytes(changed)


def _flipped(at: int) -> bytes:
    whole = batch(b"one", b"two")
    whole[at] ^= 0x10
    return bytes(whole)


GOOD = bytes(batch(b"one", b"two"))
LEGACY = struct.pack(">qiIbbii", 0, 18, 0, 1, 0, -1, 4) + b"four" + bytes(40)

REFUSED: dict[str, tuple[bytes | None, int]] = {
    "null": (None, INVALID_RECORD),
    "nothing": (b"", INVALID_RECORD),
    "one byte": (b"x", INVALID_RECORD),
    "half a header": (GOOD[:40], INVALID_RECORD),
    "a header only": (GOOD[:HEADER_SIZE], INVALID_RECORD),
    "all but a byte": (GOOD[:-1], INVALID_RECORD),
    "a byte more": (GOOD + b"x", INVALID_RECORD),
    "two batches": (GOOD + GOOD, INVALID_RECORD),
    "a flipped bit in a record": (_flipped(HEADER_SIZE + 3), CORRUPT_MESSAGE),
    "a flipped bit in the CRC": (_flipped(18), CORRUPT_MESSAGE),
    "a flipped bit in the count": (_flipped(60), CORRUPT_MESSAGE),
    "magic 0": (_with_header(magic=0), INVALID_RECORD),
    "magic 1": (LEGACY, INVALID_RECORD),
    "magic 3": (_with_header(magic=3), CORRUPT_MESSAGE),
    "magic -1": (_with_header(magic=-1), CORRUPT_MESSAGE),
    "a length of -1": (_with_header(batch_length=-1), CORRUPT_MESSAGE),
    "the largest length": (_with_header(batch_length=0x7FFFFFFF), INVALID_RECORD),
    "base offset 5": (_with_header(base_offset=5), INVALID_RECORD),
    "base offset -1": (_with_header(base_offset=-1), INVALID_RECORD),
    "no records": (_with_header(record_count=0), INVALID_RECORD),
    "-1 records": (_with_header(record_count=-1), INVALID_RECORD),
    "three records said": (_with_header(record_count=3), INVALID_RECORD),
    "last offset delta -1": (_with_header(last_offset_delta=-1), INVALID_RECORD),
    "two billion records said": (
        _with_header(record_count=0x7FFFFFFF, last_offset_delta=0x7FFFFFFE), INVALID_RECORD
    ),
    "a control batch": (_with_header(attributes=0x20), INVALID_RECORD),
    "the broker's time, but none": (
        _with_header(attributes=0x08, max_timestamp=-1), BAD_TIMESTAMP
    ),
    "codec 7": (_with_header(attributes=7), INVALID_RECORD),
    "no sequence": (_with_header(producer_id=1, producer_epoch=0), INVALID_RECORD),
    "no gzip": (_with_payload(1, b"no gzip at all"), INVALID_RECORD),
    "cut gzip": (_with_payload(1, gzip.compress(bytes(1000))[:-9]), INVALID_RECORD),
    "no snappy": (_with_payload(2, b"\xff\xff no snappy"), INVALID_RECORD),
    "no lz4": (_with_payload(3, b"no lz4 at all"), INVALID_RECORD),
    "no zstd": (_with_payload(4, b"no zstd at all"), INVALID_RECORD),
    "more than the topic takes": (bytes(batch(bytes(2 * MEBIBYTE))), TOO_LARGE),
    "more than a log record takes": (bytes(batch(bytes(8 * MEBIBYTE))), TOO_LARGE),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_a_bad_batch_is_refused_and_nothing_else(
    hostile: TailraceProcess, name: str, topic: str
) -> None:
    records, code = REFUSED[name]
    create_topic(hostile, topic)
    with RawClient(hostile) as client:
        refused = produce(client, topic, records)
        assert (refused.error_code, refused.base_offset) == (code, -1)
        assert produce(client, topic, GOOD).base_offset == 0
        assert all_values(client, topic) == [b"one", b"two"]


ZEROS = 16 * MEBIBYTE
BOMBS: dict[str, tuple[int, Callable[[], bytes]]] = {
    "gzip members": (1, lambda: gzip.compress(bytes(ZEROS), 9) * 60),
    "lz4": (3, lambda: lz4.frame.compress(bytes(15 * ZEROS), store_size=False)),
    "zstd": (4, lambda: bytes(cramjam.zstd.compress(bytes(16 * ZEROS)))),
    "zstd frames": (4, lambda: bytes(cramjam.zstd.compress(bytes(ZEROS))) * 400),
    "snappy": (2, lambda: b"\xff\xff\xff\xff\x0f" + bytes(1000)),
    "xerial": (
        2,
        lambda: b"\x82SNAPPY\0" + struct.pack(">iii", 1, 1, 9) + b"\xff\xff\xff\xff\7" + bytes(4),
    ),
}
"""Batches below the topic's limit that want to be far more; made only when they are sent."""


@pytest.fixture
def memory_allowed(request: pytest.FixtureRequest) -> int:
    """A bomb may become 64 MiB, while a buffer for it may be there as well."""
    return (200 if "bomb" in request.node.name else 96) * MEBIBYTE


@pytest.mark.parametrize("name", BOMBS)
def test_a_compressed_bomb_is_refused(hostile: TailraceProcess, name: str, topic: str) -> None:
    codec, payload = BOMBS[name]
    records = _with_payload(codec, payload())
    assert len(records) < 1_048_588
    create_topic(hostile, topic)
    with RawClient(hostile) as client:
        for _ in range(3):
            assert produce(client, topic, records).error_code == TOO_LARGE
        assert produce(client, topic, GOOD).base_offset == 0


def test_what_came_out_of_a_bomb_is_let_go(hostile: TailraceProcess, topic: str) -> None:
    """At once, and not when garbage is looked for; the way to a partition not yet open kept it."""
    codec, payload = BOMBS["lz4"]
    records = _with_payload(codec, payload())
    topics = [f"{topic}-{number}" for number in range(4)]
    for name in topics:
        create_topic(hostile, name)
    before = memory(hostile)
    with RawClient(hostile) as client:
        for name in topics:
            assert produce(client, name, records).error_code == TOO_LARGE
    assert memory(hostile) - before < 64 * MEBIBYTE


@pytest.mark.parametrize("codec", ["gzip", "lz4"])
def test_a_batch_of_a_hundred_thousand_empty_streams(
    hostile: TailraceProcess, codec: str, topic: str
) -> None:
    """Nothing comes out of it, and still every one of them wants to be begun and ended."""
    number, unit = (1, gzip.compress(b""))
    if codec == "lz4":
        number, unit = 3, lz4.frame.compress(b"", store_size=False)
    records = _with_payload(number, unit * (1_000_000 // len(unit)))
    create_topic(hostile, topic)
    with RawClient(hostile) as client:
        assert produce(client, topic, records).error_code == INVALID_RECORD


@pytest.mark.parametrize("codec", range(5))
def test_every_codec_that_is_right_is_taken(
    hostile: TailraceProcess, codec: int, topic: str
) -> None:
    create_topic(hostile, topic)
    with RawClient(hostile) as client:
        assert produce(client, topic, batch(b"one", b"two", codec=codec)).base_offset == 0
        assert all_values(client, topic) == [b"one", b"two"]


def test_zstd_needs_produce_v7(hostile: TailraceProcess, topic: str) -> None:
    create_topic(hostile, topic)
    with RawClient(hostile) as client:
        packed = batch(b"v", codec=4)
        assert produce(client, topic, packed, version=6).error_code == BAD_COMPRESSION
        assert produce(client, topic, packed, version=7).error_code == 0


def test_records_without_a_key_in_a_compacted_topic(hostile: TailraceProcess, topic: str) -> None:
    create_topic(hostile, topic, cleanup_policy="compact")
    with RawClient(hostile) as client:
        refused = produce(client, topic, GOOD)
    assert refused.error_code == INVALID_RECORD
    assert [each.batch_index for each in refused.record_errors] == [0, 1]


@pytest.mark.parametrize("acks", [7, -2, 2, 32767])
def test_acks_that_mean_nothing(hostile: TailraceProcess, acks: int, topic: str) -> None:
    create_topic(hostile, topic)
    with RawClient(hostile) as client:
        assert produce(client, topic, GOOD, acks=acks).error_code == BAD_ACKS
        assert all_values(client, topic) == []


def test_targets_that_are_not_there(hostile: TailraceProcess, topic: str) -> None:
    create_topic(hostile, topic)
    with RawClient(hostile) as client:
        assert produce(client, topic + "-no", GOOD).error_code == UNKNOWN_TOPIC
        assert produce(client, "", GOOD).error_code == UNKNOWN_TOPIC
        assert produce(client, "../../etc", GOOD).error_code == UNKNOWN_TOPIC
        for partition in (1, -1, 0x7FFFFFFF, -0x80000000):
            request = produce_request(topic, GOOD, partition=partition)
            answer = client.ask(PRODUCE, 9, request).responses[0].partition_responses[0]
            assert (answer.index, answer.error_code) == (partition, UNKNOWN_TOPIC)


def test_an_internal_topic_is_not_for_clients(hostile: TailraceProcess) -> None:
    with RawClient(hostile) as client:
        assert produce(client, "__consumer_offsets", GOOD).error_code in (
            INVALID_TOPIC,
            UNKNOWN_TOPIC,  # nobody has needed it yet
        )


def test_one_bad_batch_leaves_the_others_of_its_request(
    hostile: TailraceProcess, topic: str
) -> None:
    others = [create_topic(hostile, f"{topic}-{number}") for number in range(3)]
    parts = [(others[0], 0, GOOD), (others[1], 0, _flipped(70)), (others[1], 9, GOOD)]
    parts += [(others[2], 0, GOOD)]
    data = [
        TopicProduceData(
            name=name, partition_data=[PartitionProduceData(index=index, records=records)]
        )
        for name, index, records in parts
    ]
    request = ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=data)
    with RawClient(hostile) as client:
        answers = [
            part
            for each in client.ask(PRODUCE, 9, request).responses
            for part in each.partition_responses
        ]
        found = {(a.error_code, a.base_offset) for a in answers}
        assert found == {(0, 0), (CORRUPT_MESSAGE, -1), (UNKNOWN_TOPIC, -1)}
        assert all_values(client, others[0]) == all_values(client, others[2]) == [b"one", b"two"]
        assert all_values(client, others[1]) == []


# ---- acks=0: the only answer there is to a fault is the end of the connection


def test_acks_0_has_no_answer(hostile: TailraceProcess, topic: str) -> None:
    create_topic(hostile, topic)
    with RawClient(hostile) as client:
        for _ in range(3):
            client.send(PRODUCE, 9, produce_request(topic, GOOD, acks=0))
        client.ask(API_VERSIONS, 0, ApiVersionsRequest())  # it is the next answer
        assert produce(client, topic, GOOD).base_offset == 6


@pytest.mark.parametrize("fault", ["topic", "crc", "both of two"])
def test_a_fault_with_acks_0_closes_the_connection(
    hostile: TailraceProcess, fault: str, topic: str
) -> None:
    create_topic(hostile, topic)
    request = produce_request(topic, _flipped(70), acks=0)
    if fault == "topic":
        request = produce_request("no such\ntopic" + "x" * 3000, GOOD, acks=0)
    if fault == "both of two":
        data = [PartitionProduceData(index=5), PartitionProduceData(index=6)]
        request.topic_data = [TopicProduceData(name=topic, partition_data=data)]
    with RawClient(hostile) as client:
        client.send(PRODUCE, 9, request)
        assert client.is_closed_by_broker()
    lines = lines_about(hostile, client)
    assert len(lines) == 1
    assert "acks=0" in lines[0]
    assert len(lines[0]) < 600


# ---- sequences


def _sequence(pid: int, sequence: int, *, epoch: int = 0, count: int = 2) -> bytearray:
    return batch(
        *[b"%d" % (sequence + i) for i in range(count)], producer=Producer(pid, epoch, sequence)
    )


@pytest.fixture
def client(hostile: TailraceProcess, topic: str) -> Iterator[RawClient]:
    create_topic(hostile, topic)
    with RawClient(hostile) as connected:
        yield connected


def test_sequences_out_of_order_are_refused(client: RawClient, topic: str) -> None:
    pid = producer_id(client)
    assert produce(client, topic, _sequence(pid, 0)).base_offset == 0
    for wrong in (1, 3, 4, 100, 0x7FFFFFFF):
        assert produce(client, topic, _sequence(pid, wrong)).error_code == OUT_OF_ORDER
    assert produce(client, topic, _sequence(pid, 0, count=3)).error_code == OUT_OF_ORDER
    assert produce(client, topic, _sequence(pid, 2)).base_offset == 2
    assert all_values(client, topic) == [b"0", b"1", b"2", b"3"]


def test_duplicates_get_the_first_answer(client: RawClient, topic: str) -> None:
    """The five newest batches are remembered; what is older is out of order."""
    pid = producer_id(client)
    for number in range(7):
        assert produce(client, topic, _sequence(pid, 2 * number)).base_offset == 2 * number
    for number in (6, 2, 4, 3, 5, 2):
        again = produce(client, topic, _sequence(pid, 2 * number))
        assert (again.error_code, again.base_offset) == (0, 2 * number)
    assert produce(client, topic, _sequence(pid, 2)).error_code == OUT_OF_ORDER
    assert len(all_values(client, topic)) == 14


def test_duplicates_in_flight_are_written_once(client: RawClient, topic: str) -> None:
    pid = producer_id(client)
    sent = b"".join(
        client.frame(PRODUCE, 9, produce_request(topic, _sequence(pid, number)))
        for number in (0, 0, 2, 0, 2, 4, 4)
    )
    client.send_bytes(sent)
    answers = [client.receive_as(PRODUCE, 9)[1] for _ in range(7)]
    parts = [answer.responses[0].partition_responses[0] for answer in answers]
    assert [part.error_code for part in parts] == [0] * 7
    assert [part.base_offset for part in parts] == [0, 0, 2, 0, 2, 4, 4]
    assert len(all_values(client, topic)) == 6


def test_epochs(client: RawClient, topic: str) -> None:
    pid = producer_id(client)
    assert produce(client, topic, _sequence(pid, 0, epoch=3)).error_code == 0
    assert produce(client, topic, _sequence(pid, 2, epoch=2)).error_code == BAD_EPOCH
    assert produce(client, topic, _sequence(pid, 2, epoch=4)).error_code == OUT_OF_ORDER
    assert produce(client, topic, _sequence(pid, 0, epoch=4)).error_code == 0
    assert produce(client, topic, _sequence(pid, 2, epoch=3)).error_code == BAD_EPOCH


def test_sequences_wrap(client: RawClient, topic: str) -> None:
    pid = producer_id(client)
    assert produce(client, topic, _sequence(pid, 0x7FFFFFFE)).error_code == 0
    assert produce(client, topic, _sequence(pid, 0x7FFFFFFF)).error_code == OUT_OF_ORDER
    assert produce(client, topic, _sequence(pid, 0)).base_offset == 2
    assert produce(client, topic, _sequence(pid, 0x7FFFFFFE)).base_offset == 0


def test_a_refused_batch_uses_no_sequence(client: RawClient, topic: str) -> None:
    pid = producer_id(client)
    broken = _sequence(pid, 0)
    broken[-1] ^= 1
    assert produce(client, topic, broken).error_code == CORRUPT_MESSAGE
    assert produce(client, topic, _sequence(pid, 0)).base_offset == 0


def test_a_flood_of_producer_ids(hostile: TailraceProcess, client: RawClient, topic: str) -> None:
    """Every one is remembered for a day, so each must cost little; 2,000 of them, pipelined."""
    first = producer_id(client) + 1_000_000
    for start in range(0, 2000, 100):
        frames = [
            client.frame(PRODUCE, 9, produce_request(topic, _sequence(first + start + each, 0)))
            for each in range(100)
        ]
        client.send_bytes(b"".join(frames))
        for _ in frames:
            answer = client.receive_as(PRODUCE, 9)[1]
            assert answer.responses[0].partition_responses[0].error_code == 0


def test_a_client_that_goes_before_its_answers(hostile: TailraceProcess, topic: str) -> None:
    """What was sent whole is appended, in order and once; the answers have nowhere to go."""
    create_topic(hostile, topic)
    with RawClient(hostile) as client:
        pid = producer_id(client)
        for number in range(50):
            try:
                client.send(PRODUCE, 9, produce_request(topic, _sequence(pid, number, count=1)))
            except Closed:
                pytest.fail("closed by the broker")
    with RawClient(hostile) as other:
        found = all_values(other, topic)
    assert found == [b"%d" % number for number in range(len(found))]
