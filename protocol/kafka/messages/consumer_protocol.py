"""Kafka's embedded consumer protocol: what classic members of type "consumer" tell one another.

Bytes inside JoinGroup (a subscription) and SyncGroup (an assignment): int16 version + fields. A
newer version only appends, so it is read as the newest one known here.
Source: Kafka ConsumerProtocolSubscription.json, ConsumerProtocolAssignment.json; ConsumerProtocol.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from struct import Struct
from typing import Final, TypeVar

from tailrace.protocol.errors import BadValue, BufferUnderflow
from tailrace.protocol.ids import Buffer
from tailrace.protocol.kafka.primitives import BYTES, INT32, STRING
from tailrace.protocol.kafka.wire import array, decode, encode, join, wire

VERSION_MAX: Final = 3

_PREFIX: Final = Struct(">h")


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPartition:
    """Part of a subscription and of an assignment."""

    topic: str = wire(STRING)
    partitions: Sequence[int] = wire(array(INT32))


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerProtocolSubscription:
    """Source: Kafka ConsumerProtocolSubscription.json, v0-3."""

    topics: Sequence[str] = wire(array(STRING))
    user_data: bytes | None = wire(BYTES, nullable_since=0, default=None)
    owned_partitions: Sequence[TopicPartition] = wire(array(TopicPartition), since=1)
    generation_id: int = wire(INT32, since=2, default=-1)
    rack_id: str | None = wire(STRING, since=3, nullable_since=3, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerProtocolAssignment:
    """Source: Kafka ConsumerProtocolAssignment.json, v0-3."""

    assigned_partitions: Sequence[TopicPartition] = wire(array(TopicPartition))
    user_data: bytes | None = wire(BYTES, nullable_since=0, default=None)


T = TypeVar("T", ConsumerProtocolSubscription, ConsumerProtocolAssignment)


def decode_subscription(data: Buffer) -> ConsumerProtocolSubscription:
    """Read what a member subscribes to. Errors: DecodeError family."""
    return _decode(ConsumerProtocolSubscription, data)


def decode_assignment(data: Buffer) -> ConsumerProtocolAssignment:
    """Read what a member was assigned. Errors: DecodeError family."""
    return _decode(ConsumerProtocolAssignment, data)


def encode_subscription(value: ConsumerProtocolSubscription, version: int) -> bytes:
    """Return a subscription's bytes; a version above the newest is written as the newest."""
    return _encode(value, version)


def encode_assignment(value: ConsumerProtocolAssignment, version: int) -> bytes:
    """Return an assignment's bytes; a version above the newest is written as the newest."""
    return _encode(value, version)


def version_of(data: Buffer) -> int:
    """Return the version that a member wrote. Errors: DecodeError family."""
    view = memoryview(data)
    if len(view) < _PREFIX.size:
        raise BufferUnderflow("consumer protocol bytes without their version")
    version: int = _PREFIX.unpack_from(view)[0]
    if version < 0:
        raise BadValue(f"consumer protocol version {version}")
    return version


def _decode(schema: type[T], data: Buffer) -> T:
    version = min(version_of(data), VERSION_MAX)
    return decode(schema, version, memoryview(data)[_PREFIX.size :], flexible=False)


def _encode(value: T, version: int) -> bytes:
    version = min(version, VERSION_MAX)
    return join([_PREFIX.pack(version), *encode(value, version, flexible=False)])
