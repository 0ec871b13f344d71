"""Fetch by hand: request in, response out, v4-18 (see hot.py). Records are passed through."""

from collections.abc import Callable, Iterable, Sequence
from struct import Struct
from typing import Any, Final, NamedTuple

from tailrace.protocol.ids import Buffer
from tailrace.protocol.kafka.hot import (
    DECLINED,
    I32,
    UnusualError,
    compact_count,
    compact_text,
    count,
    no_tags,
    put_compact_text,
    put_text,
    text,
)
from tailrace.protocol.kafka.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from tailrace.protocol.kafka.primitives import ELEMENTS_MAX, pack_uvarint

_PLAIN: Final = PartitionData()  # its defaults are the very instances that others have
_NO_SESSION: Final = (0, -1)

Rows = Iterable[tuple[Any, ...]]


class _RequestShape(NamedTuple):
    """What one range of versions has in front of the topics, and per partition."""

    head: Struct
    row: Struct
    partitions: Callable[[Rows], list[FetchPartition]]


def _rows_v4(rows: Rows) -> list[FetchPartition]:
    return [
        FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=size)
        for partition, offset, size in rows
    ]


def _rows_v5(rows: Rows) -> list[FetchPartition]:
    return [
        FetchPartition(
            partition=partition,
            fetch_offset=offset,
            log_start_offset=start,
            partition_max_bytes=size,
        )
        for partition, offset, start, size in rows
    ]


def _rows_v9(rows: Rows) -> list[FetchPartition]:
    return [
        FetchPartition(
            partition=partition,
            current_leader_epoch=epoch,
            fetch_offset=offset,
            log_start_offset=start,
            partition_max_bytes=size,
        )
        for partition, epoch, offset, start, size in rows
    ]


def _rows_v12(rows: Rows) -> list[FetchPartition]:
    partitions = []
    for partition, epoch, offset, fetched_epoch, start, size, tags in rows:
        if tags:
            raise UnusualError
        partitions.append(
            FetchPartition(
                partition=partition,
                current_leader_epoch=epoch,
                fetch_offset=offset,
                last_fetched_epoch=fetched_epoch,
                log_start_offset=start,
                partition_max_bytes=size,
            )
        )
    return partitions


_V4: Final = _RequestShape(Struct(">iiiib"), Struct(">iqi"), _rows_v4)
_V5: Final = _RequestShape(Struct(">iiiib"), Struct(">iqqi"), _rows_v5)
_V7: Final = _RequestShape(Struct(">iiiibii"), Struct(">iqqi"), _rows_v5)
_V9: Final = _RequestShape(Struct(">iiiibii"), Struct(">iiqqi"), _rows_v9)
_V12: Final = _RequestShape(Struct(">iiiibii"), Struct(">iiqiqiB"), _rows_v12)
_V15: Final = _RequestShape(Struct(">iiibii"), Struct(">iiqiqiB"), _rows_v12)
_REQUEST: Final = {
    **dict.fromkeys((4,), _V4),
    **dict.fromkeys((5, 6), _V5),
    **dict.fromkeys((7, 8), _V7),
    **dict.fromkeys((9, 10, 11), _V9),
    **dict.fromkeys((12, 13, 14), _V12),
    **dict.fromkeys((15, 16, 17, 18), _V15),
}


def decode_request(version: int, body: memoryview) -> FetchRequest | None:
    """Decode a plain request that forgets no topics, or decline."""
    try:
        return _decode(version, body, _REQUEST[version])
    except DECLINED:
        return None


def _decode(version: int, body: memoryview, shape: _RequestShape) -> FetchRequest:
    head = shape.head.unpack_from(body, 0)
    if version >= 15:
        head = (-1, *head)
    replica_id, max_wait_ms, min_bytes, max_bytes, isolation_level = head[:5]
    session_id, session_epoch = head[5:] or _NO_SESSION
    read_topics = _topics_compact if version >= 12 else _topics_classic
    topics, at = read_topics(version, body, shape)
    return FetchRequest(
        replica_id=replica_id,
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        isolation_level=isolation_level,
        session_id=session_id,
        session_epoch=session_epoch,
        topics=tuple(topics),
        rack_id=_rack(version, body, at),
    )


def _topics_classic(
    _version: int, body: memoryview, shape: _RequestShape
) -> tuple[list[FetchTopic], int]:
    topic_count, at = count(body, shape.head.size)
    elements = topic_count
    topics = []
    for _ in range(topic_count):
        name, at = text(body, at)
        partition_count, at = count(body, at)
        elements += partition_count
        partitions, at = _partitions(body, at, partition_count, elements, shape)
        topics.append(FetchTopic(topic=name, partitions=partitions))
    return topics, at


def _topics_compact(
    version: int, body: memoryview, shape: _RequestShape
) -> tuple[list[FetchTopic], int]:
    topic_count, at = compact_count(body, shape.head.size)
    elements = topic_count
    topics = []
    for _ in range(topic_count):
        topic = FetchTopic()
        if version >= 13:
            topic.topic_id = bytes(body[at : at + 16])
            at += 16
        else:
            topic.topic, at = compact_text(body, at)
        partition_count, at = compact_count(body, at)
        elements += partition_count
        topic.partitions, at = _partitions(body, at, partition_count, elements, shape)
        at = no_tags(body, at)
        topics.append(topic)
    return topics, at


def _partitions(
    body: memoryview, at: int, number: int, elements: int, shape: _RequestShape
) -> tuple[tuple[FetchPartition, ...], int]:
    end = at + number * shape.row.size
    if end > len(body) or elements > ELEMENTS_MAX:
        raise UnusualError
    return tuple(shape.partitions(shape.row.iter_unpack(body[at:end]))), end


def _rack(version: int, body: memoryview, at: int) -> str:
    """Read what follows the topics: no forgotten topics, the rack, no tags."""
    if version >= 12:
        forgotten, at = compact_count(body, at)
        rack_id, at = compact_text(body, at)
        no_tags(body, at)
    elif version >= 7:
        forgotten, at = count(body, at)
        rack_id, at = text(body, at) if version >= 11 else ("", at)
    else:
        return ""
    if forgotten or at > len(body):
        raise UnusualError
    return rack_id


_HEAD_V7: Final = Struct(">ihi")  # throttle, error, session
_DATA_V4: Final = Struct(">ihqq")  # partition, error, high watermark, last stable offset
_DATA_V5: Final = Struct(">ihqqq")  # and log start offset
_ABORTED: Final = Struct(">qq")  # producer, first offset
_ABORTED_V12: Final = Struct(">qqB")  # and no tags


def encode_response(version: int, response: FetchResponse) -> list[Buffer] | None:
    """Encode a response without tags: buffers, records among them."""
    try:
        return _encode(version, response)
    except DECLINED:
        return None


def _encode(version: int, response: FetchResponse) -> list[Buffer]:
    if response.node_endpoints and version >= 16:
        raise UnusualError
    parts: list[Buffer] = []
    out = bytearray(
        _HEAD_V7.pack(response.throttle_time_ms, response.error_code, response.session_id)
        if version >= 7
        else I32.pack(response.throttle_time_ms)
    )
    _put_count(out, version, len(response.responses))
    for topic in response.responses:
        _put_topic(out, version, topic)
        for data in topic.partitions:
            _put_partition(out, version, data)
            out = _put_records(parts, out, version, data.records)
            if version >= 12:
                out.append(0)
        if version >= 12:
            out.append(0)
    if version >= 12:
        out.append(0)
    parts.append(out)
    return parts


def _put_count(out: bytearray, version: int, number: int) -> None:
    out += pack_uvarint(number + 1) if version >= 12 else I32.pack(number)


def _put_topic(out: bytearray, version: int, topic: FetchableTopicResponse) -> None:
    if version >= 13:
        if len(topic.topic_id) != 16:
            raise UnusualError
        out += topic.topic_id
    elif version == 12:
        put_compact_text(out, topic.topic)
    else:
        put_text(out, topic.topic)
    _put_count(out, version, len(topic.partitions))


def _put_partition(out: bytearray, version: int, data: PartitionData) -> None:
    if version >= 12 and _has_tags(data):
        raise UnusualError
    row = (data.partition_index, data.error_code, data.high_watermark, data.last_stable_offset)
    if version >= 5:
        out += _DATA_V5.pack(*row, data.log_start_offset)
    else:
        out += _DATA_V4.pack(*row)
    aborted = data.aborted_transactions
    _put_count(out, version, -1 if aborted is None else len(aborted))
    for each in aborted or ():
        if version >= 12:
            out += _ABORTED_V12.pack(each.producer_id, each.first_offset, 0)
        else:
            out += _ABORTED.pack(each.producer_id, each.first_offset)
    if version >= 11:
        out += I32.pack(data.preferred_read_replica)


def _has_tags(data: PartitionData) -> bool:
    epoch, leader, snapshot = data.diverging_epoch, data.current_leader, data.snapshot_id
    return (
        (epoch is not _PLAIN.diverging_epoch and epoch != _PLAIN.diverging_epoch)
        or (leader is not _PLAIN.current_leader and leader != _PLAIN.current_leader)
        or (snapshot is not _PLAIN.snapshot_id and snapshot != _PLAIN.snapshot_id)
    )


def _put_records(
    parts: list[Buffer], out: bytearray, version: int, records: Buffer | Sequence[Buffer] | None
) -> bytearray:
    """Announce the records and put them behind `out`; return where to go on writing."""
    if records is None:
        _put_count(out, version, -1)
        return out
    buffers: Sequence[Buffer] = records if isinstance(records, list | tuple) else (records,)
    size = sum(map(len, buffers))
    _put_count(out, version, size)
    if not size:
        return out
    parts.append(out)
    parts += buffers
    return bytearray()
