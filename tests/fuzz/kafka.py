"""Kafka's requests, answers and coordinator records."""

from collections.abc import Callable, Generator, Iterator
from random import Random
from typing import Any

from tailrace.broker.coordinator import records as group_records
from tailrace.broker.transactions import records as transaction_records
from tailrace.protocol.errors import ProtocolError
from tailrace.protocol.kafka import hot_fetch, hot_produce, wire
from tailrace.protocol.kafka.api import Api
from tailrace.protocol.kafka.apis import APIS, FETCH, PRODUCE
from tailrace.protocol.kafka.codec import (
    decode_request,
    decode_request_steps,
    decode_response,
    encode_request,
    encode_response,
)
from tailrace.protocol.kafka.header import (
    RequestHeader,
    decode_request_header,
    decode_response_header,
    request_frame,
)
from tailrace.protocol.kafka.messages import (
    consumer_group_records,
    consumer_protocol,
    coordinator_records,
)
from tailrace.protocol.kafka.messages import (
    transaction_records as transaction_messages,
)
from tests.fuzz.judge import plain
from tests.fuzz.target import Target
from tests.unit.protocol.kafka.samples import sample

_APIS = list(APIS.values())
_HOT = {PRODUCE.key: hot_produce.decode_request, FETCH.key: hot_fetch.decode_request}
_HOT_ANSWERS = {PRODUCE.key, FETCH.key}


# ---- requests, with their headers


def _request(data: bytes) -> tuple[RequestHeader, Any]:
    frame = memoryview(data)
    header, at = decode_request_header(frame)
    api = APIS[header.api_key]
    _compare_steps(api, header.api_version, frame[at:])
    message = decode_request(api, header.api_version, frame[at:])
    if header.api_key in _HOT:
        _compare_hot(api, header.api_version, frame[at:])
    return header, message


def _compare_steps(api: Api[Any, Any], version: int, body: memoryview) -> None:
    """Hold the decoder in steps to the one without: they read, or refuse, the same."""
    at_once = _outcome(
        lambda: wire.decode(api.request, version, body, flexible=api.flexible(version))
    )
    in_steps = _outcome(lambda: _last(decode_request_steps(api, version, body)))
    assert at_once == in_steps, f"{at_once} at once, {in_steps} in steps"


def _outcome(read: Callable[[], Any]) -> Any:
    try:
        return plain(read())
    except ProtocolError as error:
        return type(error)


def _last(steps: Generator[None, None, Any]) -> Any:
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value


def _compare_hot(api: Api[Any, Any], version: int, body: memoryview) -> None:
    """Hold the codec by hand to the construct: what it takes, the other reads as the same."""
    by_hand = _HOT[api.key](version, body)
    if by_hand is None:
        return
    try:
        by_construct = wire.decode(api.request, version, body, flexible=api.flexible(version))
    except ProtocolError as error:
        raise AssertionError(f"only the codec by hand reads it: {error!r}") from error
    assert plain(by_hand) == plain(by_construct), f"{by_hand} by hand, {by_construct}"


def _request_bytes(value: tuple[RequestHeader, Any]) -> bytes:
    header, message = value
    api = APIS[header.api_key]
    return request_frame(api, header, encode_request(api, header.api_version, message))[4:]


def _requests(apis: list[Api[Any, Any]]) -> Iterator[bytes]:
    random = Random(1)
    for api in apis:
        for version in api.versions:
            header = RequestHeader(api.key, version, 7, random.choice((None, "", "client")))
            for plain_only in (True, False):
                message = sample(api.request, version, random, plain=plain_only)
                yield _request_bytes((header, message))


# ---- answers of other brokers: index of the API, of its version, then the frame


def _answer(data: bytes) -> tuple[int, int, int, Any]:
    if len(data) < 2:
        return 0, 0, 0, None
    api = _APIS[data[0] % len(_APIS)]
    version = api.versions[data[1] % len(api.versions)]
    frame = memoryview(data)[2:]
    correlation_id, at = decode_response_header(api, version, frame)
    message = decode_response(api, version, frame[at:])
    if api.key in _HOT_ANSWERS:
        by_hand = wire.join(encode_response(api, version, message))
        by_construct = wire.join(wire.encode(message, version, flexible=api.flexible(version)))
        assert by_hand == by_construct, f"{message} written by hand, and by the construct"
    return data[0] % len(_APIS), data[1] % len(api.versions), correlation_id, message


def _answer_bytes(value: tuple[int, int, int, Any]) -> bytes | None:
    index, at, correlation_id, message = value
    if message is None:
        return None
    api = _APIS[index]
    version = api.versions[at]
    head = correlation_id.to_bytes(4, "big", signed=True)
    if api.flexible(version) and api.name != "ApiVersions":
        head += b"\0"
    body = wire.encode(message, version, flexible=api.flexible(version))
    return bytes((index, at)) + head + wire.join(body)


def _answers() -> Iterator[bytes]:
    random = Random(2)
    for index, api in enumerate(_APIS):
        for at, version in enumerate(api.versions):
            message = sample(api.response, version, random)
            yield _answer_bytes((index, at, 7, message)) or b""


# ---- records of internal topics: length of the key as a byte, key, value (none of 0 bytes: null)


def _key_and_value(data: bytes) -> tuple[bytes, bytes | None]:
    end = 1 + (data[0] if data else 0)
    return data[1:end], data[end:] or None


def _record_bytes(key: bytes, value: bytes | None) -> bytes | None:
    return bytes((len(key),)) + key + (value or b"") if len(key) < 256 else None


def _group_record(data: bytes) -> Any:
    return group_records.read_record(*_key_and_value(data))


def _group_record_bytes(update: Any) -> bytes | None:
    if update is None:
        return None
    if isinstance(update, group_records.OffsetUpdate):
        return _record_bytes(*group_records.offset_record(update))
    if isinstance(update, group_records.GroupUpdate):
        return _record_bytes(*group_records.group_record(update.group_id, update.value))
    value = update.value
    return _record_bytes(
        consumer_group_records.encode_group_key(update.key),
        None if value is None else consumer_group_records.encode_group_value(value),
    )


def _group_seeds() -> Iterator[bytes]:
    random = Random(3)
    pairs = (
        (coordinator_records.OffsetCommitKey, coordinator_records.OffsetCommitValue),
        (coordinator_records.GroupMetadataKey, coordinator_records.GroupMetadataValue),
    )
    for key_class, value_class in pairs:
        for version in range(5):
            key = coordinator_records.encode_key(sample(key_class, 0, random, plain=True))
            value = sample(value_class, version, random, plain=True)
            yield _record_bytes(key, coordinator_records.encode_value(value, version)) or b""
    for key_class, value_class in consumer_group_records.RECORD_TYPES.values():
        key = consumer_group_records.encode_group_key(sample(key_class, 0, random))
        value = consumer_group_records.encode_group_value(sample(value_class, 0, random))
        yield _record_bytes(key, value) or b""
        yield _record_bytes(key, None) or b""


def _transaction_record(data: bytes) -> Any:
    return transaction_records.read_record(*_key_and_value(data))


def _transaction_record_bytes(update: Any) -> bytes | None:
    if update is None:
        return None
    if update.metadata is None:
        record = transaction_records.tombstone(update.transactional_id)
    else:
        record = transaction_records.transaction_record(update.metadata)
    return _record_bytes(*record)


def _transaction_seeds() -> Iterator[bytes]:
    random = Random(4)
    for status in range(6):
        for version in (0, 1):
            name = transaction_messages.TransactionLogKey(transactional_id="t")
            value = sample(transaction_messages.TransactionLogValue, version, random)
            value.transaction_status = status
            key = transaction_messages.encode_key(name)
            yield _record_bytes(key, transaction_messages.encode_value(value, version)) or b""


# ---- what group members say to each other: kind and version as the first bytes of the value


def _member(data: bytes) -> tuple[int, int, Any]:
    body = data[1:]
    is_assignment = bool(data and data[0] & 1)
    read = (
        consumer_protocol.decode_assignment
        if is_assignment
        else (consumer_protocol.decode_subscription)
    )
    return int(is_assignment), consumer_protocol.version_of(body), read(body)


def _member_bytes(value: tuple[int, int, Any]) -> bytes | None:
    is_assignment, version, message = value
    write: Any = (
        consumer_protocol.encode_assignment
        if is_assignment
        else (consumer_protocol.encode_subscription)
    )
    if version > consumer_protocol.VERSION_MAX:
        return None
    return bytes((is_assignment,)) + bytes(write(message, version))


def _members() -> Iterator[bytes]:
    random = Random(5)
    for version in range(4):
        for kind, schema in enumerate((
            consumer_protocol.ConsumerProtocolSubscription,
            consumer_protocol.ConsumerProtocolAssignment,
        )):  # fmt: skip
            yield _member_bytes((kind, version, sample(schema, version, random))) or b""


TARGETS = (
    Target(
        name="kafka-request",
        decode=_request,
        errors=(ProtocolError,),
        seeds=lambda: _requests(_APIS),
        encode=_request_bytes,
        memory_per_byte=600,
    ),
    Target(
        name="kafka-produce",
        decode=_request,
        errors=(ProtocolError,),
        seeds=lambda: _requests([PRODUCE]),
        encode=_request_bytes,
        memory_per_byte=600,
    ),
    Target(
        name="kafka-fetch",
        decode=_request,
        errors=(ProtocolError,),
        seeds=lambda: _requests([FETCH]),
        encode=_request_bytes,
        memory_per_byte=600,
    ),
    Target(
        name="kafka-answer",
        decode=_answer,
        errors=(ProtocolError,),
        seeds=_answers,
        encode=_answer_bytes,
        memory_per_byte=600,
    ),
    Target(
        name="group-record",
        decode=_group_record,
        errors=(ProtocolError,),
        seeds=_group_seeds,
        encode=_group_record_bytes,
        memory_per_byte=600,
    ),
    Target(
        name="transaction-record",
        decode=_transaction_record,
        errors=(ProtocolError,),
        seeds=_transaction_seeds,
        encode=_transaction_record_bytes,
        memory_per_byte=600,
    ),
    Target(
        name="consumer-protocol",
        decode=_member,
        errors=(ProtocolError,),
        seeds=_members,
        encode=_member_bytes,
        memory_per_byte=600,
    ),
)
