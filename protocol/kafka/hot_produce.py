"""Produce by hand: request in, response out, v3-13 (see hot.py). Records stay in the frame."""

from functools import lru_cache
from struct import Struct
from typing import Final

from tailrace.protocol.ids import Buffer
from tailrace.protocol.kafka.hot import (
    DECLINED,
    I32,
    UnusualError,
    compact_count,
    compact_length,
    compact_text,
    count,
    no_tags,
    nullable_text,
    put_compact_text,
    put_text,
    text,
)
from tailrace.protocol.kafka.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from tailrace.protocol.kafka.primitives import NULL, pack_uvarint

_ACKS_TIMEOUT: Final = Struct(">hi")
_INDEX_SIZE: Final = Struct(">ii")
_RESULT: Final = Struct(">ihqq")  # index, error, base offset, append time
_RESULT_V5: Final = Struct(">ihqqq")  # and log start offset
_ONE_HEAD: Final = Struct(">BhiBB")  # null id, acks, timeout, one topic, its name's length + 1
_ONE_HEAD_V13: Final = Struct(">BhiB16s")  # the topic's id instead
TOPIC_IDS_SINCE: Final = 13
_ONE_PARTITION: Final = Struct(">BiBBB")  # one partition, index, first bytes of its size + 1
_ONE_RESULT: Final = Struct(">ihqqqIiB")  # as v5, then _NO_ERRORS, throttle, no tags
_NO_ERRORS: Final = 0x01000000  # no record errors, no message, no tags of partition and topic
_NAMES_KEPT: Final = 1024
ELEMENTS_MAX: Final = 6_000
"""Topics and partitions of a Produce. All are decoded and looked up in one go, 5 us for each, as
produces keep the order in which they came. A megabyte, what Java's producer sends at most unless it
is told otherwise, holds as many batches of one small record."""
_NO_LEADER: Final = PartitionProduceResponse().current_leader  # the very instance


def decode_request(version: int, body: memoryview) -> ProduceRequest | None:
    """Decode a plain request, or decline. Cost: no record byte is copied."""
    try:
        if version >= 9:
            return _decode_one(version, body) or _decode_compact(version, body)
        return _decode_classic(body)
    except DECLINED:
        return None


def _decode_one(version: int, body: memoryview) -> ProduceRequest | None:
    """Decode what most requests are: one partition, no transactional id, at most 2 MiB."""
    if version >= TOPIC_IDS_SINCE:
        transactional_id, acks, timeout_ms, topics, topic_id = _ONE_HEAD_V13.unpack_from(body)
        topic, at = TopicProduceData(topic_id=topic_id), _ONE_HEAD_V13.size
    else:
        transactional_id, acks, timeout_ms, topics, name_size = _ONE_HEAD.unpack_from(body)
        if not 0 < name_size < 0x80:
            return None
        at = 8 + name_size
        topic = TopicProduceData(name=str(body[9:at], "utf-8"))
    if transactional_id or topics != 2:
        return None
    data = _one_partition(body, at)
    if data is None:
        return None
    topic.partition_data = (data,)
    return ProduceRequest(acks=acks, timeout_ms=timeout_ms, topic_data=(topic,))


def _one_partition(body: memoryview, at: int) -> PartitionProduceData | None:
    """Read the only partition, and nothing but the ends of tags behind it."""
    partitions, index, size, middle, high = _ONE_PARTITION.unpack_from(body, at)
    if partitions != 2 or not size:
        return None
    start = at + 6
    if size >= 0x80:
        start += 1
        size = size & 0x7F | middle << 7
        if middle >= 0x80:
            start += 1
            size = size & 0x3FFF | high << 14
            if high >= 0x80:
                return None
    end = start + size - 1
    if body[end] or body[end + 1] or body[end + 2]:  # tags of partition, topic, request
        return None
    return PartitionProduceData(index=index, records=body[start:end])


def _decode_classic(body: memoryview) -> ProduceRequest:
    transactional_id, at = nullable_text(body, 0)
    acks, timeout_ms = _ACKS_TIMEOUT.unpack_from(body, at)
    topic_count, at = count(body, at + 6)
    elements = topic_count
    topics = []
    for _ in range(topic_count):
        name, at = text(body, at)
        partition_count, at = count(body, at)
        elements += partition_count
        if elements > ELEMENTS_MAX:
            raise UnusualError
        partitions = []
        for _ in range(partition_count):
            index, size = _INDEX_SIZE.unpack_from(body, at)
            start = at + 8
            at = start + max(size, 0)
            if size < NULL or at > len(body):
                raise UnusualError
            records = None if size == NULL else body[start:at]
            partitions.append(PartitionProduceData(index=index, records=records))
        topics.append(TopicProduceData(name=name, partition_data=tuple(partitions)))
    return ProduceRequest(
        transactional_id=transactional_id,
        acks=acks,
        timeout_ms=timeout_ms,
        topic_data=tuple(topics),
    )


def _decode_compact(version: int, body: memoryview) -> ProduceRequest:
    transactional_id, at = compact_text(body, 0) if body[0] else (None, 1)
    acks, timeout_ms = _ACKS_TIMEOUT.unpack_from(body, at)
    topic_count, at = compact_count(body, at + 6)
    elements = topic_count
    topics = []
    for _ in range(topic_count):
        topic = TopicProduceData()
        if version >= TOPIC_IDS_SINCE:
            topic.topic_id = bytes(body[at : at + 16])
            at += 16
        else:
            topic.name, at = compact_text(body, at)
        partition_count, at = compact_count(body, at)
        elements += partition_count
        if elements > ELEMENTS_MAX:
            raise UnusualError
        partitions = []
        for _ in range(partition_count):
            data, at = _compact_partition(body, at)
            partitions.append(data)
        at = no_tags(body, at)
        topic.partition_data = tuple(partitions)
        topics.append(topic)
    no_tags(body, at)
    return ProduceRequest(
        transactional_id=transactional_id,
        acks=acks,
        timeout_ms=timeout_ms,
        topic_data=tuple(topics),
    )


def _compact_partition(body: memoryview, at: int) -> tuple[PartitionProduceData, int]:
    (index,) = I32.unpack_from(body, at)
    at += 4
    records = None
    if body[at]:
        size, start = compact_length(body, at)
        at = start + size
        records = body[start:at]
    else:
        at += 1
    if body[at]:  # tagged fields; beyond the end it is an IndexError
        raise UnusualError
    return PartitionProduceData(index=index, records=records), at + 1


def encode_response(version: int, response: ProduceResponse) -> list[Buffer] | None:
    """Encode a response in which nothing is tagged and no record has an error of its own."""
    try:
        if version >= 9:
            return [_encode_one(version, response) or _encode_compact(version, response)]
        return [_encode_classic(version, response)]
    except DECLINED:
        return None


def _encode_classic(version: int, response: ProduceResponse) -> bytearray:
    out = bytearray(I32.pack(len(response.responses)))
    for topic in response.responses:
        put_text(out, topic.name)
        out += I32.pack(len(topic.partition_responses))
        for result in topic.partition_responses:
            _put_result(out, version, result)
            if version < 8:
                continue
            out += b"\0\0\0\0"  # no record errors
            if result.error_message is None:
                out += b"\xff\xff"
            else:
                put_text(out, result.error_message)
    out += I32.pack(response.throttle_time_ms)
    return out


def _encode_one(version: int, response: ProduceResponse) -> bytes | None:
    """Encode what most responses are: one partition, nothing to say about its records."""
    topics = response.responses
    if len(topics) != 1 or len(topics[0].partition_responses) != 1 or response.node_endpoints:
        return None
    result = topics[0].partition_responses[0]
    if (
        result.error_message is not None
        or result.record_errors
        or result.current_leader is not _NO_LEADER
    ):
        return None
    topic = topics[0]
    head = _one_topic(topic.name if version < TOPIC_IDS_SINCE else topic.topic_id)
    return head + _ONE_RESULT.pack(
        result.index,
        result.error_code,
        result.base_offset,
        result.log_append_time_ms,
        result.log_start_offset,
        _NO_ERRORS,
        response.throttle_time_ms,
        0,
    )


@lru_cache(_NAMES_KEPT)
def _one_topic(name: str | bytes) -> bytes:
    """Return what stands before the result of the only partition of the only topic."""
    out = bytearray(b"\2")
    _put_topic(out, name)
    out.append(2)
    return bytes(out)


def _put_topic(out: bytearray, name: str | bytes) -> None:
    if isinstance(name, str):
        put_compact_text(out, name)
    elif len(name) == 16:
        out += name
    else:
        raise UnusualError


def _encode_compact(version: int, response: ProduceResponse) -> bytearray:
    if response.node_endpoints and version >= 10:
        raise UnusualError
    out = bytearray(pack_uvarint(len(response.responses) + 1))
    for topic in response.responses:
        _put_topic(out, topic.name if version < TOPIC_IDS_SINCE else topic.topic_id)
        out += pack_uvarint(len(topic.partition_responses) + 1)
        for result in topic.partition_responses:
            _put_result(out, version, result)
            if result.error_message is None:
                out += b"\1\0\0"  # no record errors, null, no tags
            else:
                out.append(1)
                put_compact_text(out, result.error_message)
                out.append(0)
        out.append(0)
    out += I32.pack(response.throttle_time_ms)
    out.append(0)
    return out


def _put_result(out: bytearray, version: int, result: PartitionProduceResponse) -> None:
    if result.record_errors and version >= 8:
        raise UnusualError
    if result.current_leader is not _NO_LEADER and result.current_leader != _NO_LEADER:
        raise UnusualError
    if version >= 5:
        out += _RESULT_V5.pack(
            result.index,
            result.error_code,
            result.base_offset,
            result.log_append_time_ms,
            result.log_start_offset,
        )
    else:
        out += _RESULT.pack(
            result.index, result.error_code, result.base_offset, result.log_append_time_ms
        )
