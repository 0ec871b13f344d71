"""Records of `__transaction_state` in Kafka's own schemas, so that Kafka's tools can read them.

A key is int16 record type (0) + fields; a value is int16 schema version + fields; no value is a
tombstone. Source: Kafka transaction-coordinator, common/message/*.json; reference/kafka.md 4.4.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from struct import Struct
from typing import Final

from tailrace.protocol.errors import BufferUnderflow, UnsupportedVersion
from tailrace.protocol.ids import Buffer
from tailrace.protocol.kafka.primitives import INT8, INT16, INT32, INT64, STRING
from tailrace.protocol.kafka.wire import array, decode, encode, join, wire


@dataclass(slots=True, kw_only=True)
class TransactionLogKey:
    """Source: Kafka TransactionLogKey.json (type 0), v0."""

    transactional_id: str = wire(STRING)


@dataclass(slots=True, kw_only=True)
class PartitionsSchema:
    """Part of TransactionLogValue."""

    topic: str = wire(STRING)
    partition_ids: Sequence[int] = wire(array(INT32))


@dataclass(slots=True, kw_only=True)
class TransactionLogValue:
    """Source: Kafka TransactionLogValue.json (type 0), v0-1."""

    producer_id: int = wire(INT64)
    previous_producer_id: int = wire(INT64, since=1, tag=0, default=-1)
    next_producer_id: int = wire(INT64, since=1, tag=1, default=-1)
    producer_epoch: int = wire(INT16)
    next_producer_epoch: int = wire(INT16, since=1, tag=3, default=-1)
    transaction_timeout_ms: int = wire(INT32)
    transaction_status: int = wire(INT8)
    transaction_partitions: Sequence[PartitionsSchema] | None = wire(
        array(PartitionsSchema), nullable_since=0
    )
    transaction_last_update_timestamp_ms: int = wire(INT64)
    transaction_start_timestamp_ms: int = wire(INT64)
    client_transaction_version: int = wire(INT16, since=1, tag=2)


TRANSACTION_TYPE: Final = 0
VALUE_VERSION: Final = 1
"""What Kafka writes where transaction.version is 1 or 2."""

_PREFIX: Final = Struct(">h")
_VALUE_VERSIONS: Final = range(2)
_VALUE_FLEXIBLE_SINCE: Final = 1


def encode_key(key: TransactionLogKey) -> bytes:
    """Return a record key: its type, then its fields."""
    return join([_PREFIX.pack(TRANSACTION_TYPE), *encode(key, 0, flexible=False)])


def decode_key(data: Buffer) -> TransactionLogKey:
    """Read a record key. Errors: UnsupportedVersion for other record types: skip them."""
    kind, rest = _split(data)
    if kind != TRANSACTION_TYPE:
        raise UnsupportedVersion(f"transaction record type {kind}")
    return decode(TransactionLogKey, 0, rest, flexible=False)


def encode_value(value: TransactionLogValue, version: int = VALUE_VERSION) -> bytes:
    """Return a record value: its schema version, then its fields."""
    body = encode(value, version, flexible=version >= _VALUE_FLEXIBLE_SINCE)
    return join([_PREFIX.pack(version), *body])


def decode_value(data: Buffer) -> TransactionLogValue:
    """Read a record value. Errors: DecodeError family."""
    version, rest = _split(data)
    if version not in _VALUE_VERSIONS:
        raise UnsupportedVersion(f"TransactionLogValue v{version}")
    return decode(TransactionLogValue, version, rest, flexible=version >= _VALUE_FLEXIBLE_SINCE)


def _split(data: Buffer) -> tuple[int, memoryview]:
    view = memoryview(data)
    if len(view) < _PREFIX.size:
        raise BufferUnderflow("a transaction record without its version")
    number: int = _PREFIX.unpack_from(view)[0]
    return number, view[_PREFIX.size :]
