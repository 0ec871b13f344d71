"""What the coordinator keeps on the stream: Kafka's own `__transaction_state` records. Pure.

One record is the whole of one transactional id; a null value deletes it.
Source: TransactionLog, TransactionLogKey/Value.json.
"""

from typing import NamedTuple

from tailrace.broker.replicated.effects import StateRecord
from tailrace.broker.transactions.metadata import (
    AT_REST,
    PREPARED,
    TransactionMetadata,
    TransactionState,
)
from tailrace.protocol.errors import BadValue, UnexpectedNull, UnsupportedVersion
from tailrace.protocol.ids import Buffer, TopicPartition
from tailrace.protocol.kafka.messages.transaction_records import (
    PartitionsSchema,
    TransactionLogKey,
    TransactionLogValue,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)

STORED = AT_REST | PREPARED | {TransactionState.ONGOING}
"""The states that records may have."""


class TransactionUpdate(NamedTuple):
    """A transactional id as it was written; None deletes it."""

    transactional_id: str
    metadata: TransactionMetadata | None


def transaction_record(metadata: TransactionMetadata) -> StateRecord:
    """Return the record that stores a transactional id."""
    key = encode_key(TransactionLogKey(transactional_id=metadata.transactional_id))
    return StateRecord(key, encode_value(_value(metadata)))


def tombstone(transactional_id: str) -> StateRecord:
    """Return the record that deletes a transactional id."""
    return StateRecord(encode_key(TransactionLogKey(transactional_id=transactional_id)), None)


def read_record(key: Buffer | None, value: Buffer | None) -> TransactionUpdate | None:
    """Return what a record says, None for a kind that is not known.

    Errors: DecodeError family, BadValue for a state that there is not.
    """
    if key is None:
        raise UnexpectedNull("a transaction record without a key")
    try:
        name = decode_key(key).transactional_id
    except UnsupportedVersion:
        return None
    if value is None:
        return TransactionUpdate(name, None)
    return TransactionUpdate(name, _metadata(name, decode_value(value)))


def by_topic(partitions: frozenset[TopicPartition]) -> dict[str, list[int]]:
    """Return the partitions of each topic, all in order."""
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        topics.setdefault(topic, []).append(partition)
    return topics


def _value(metadata: TransactionMetadata) -> TransactionLogValue:
    partitions = None
    if metadata.state is not TransactionState.EMPTY:
        partitions = [
            PartitionsSchema(topic=topic, partition_ids=ids)
            for topic, ids in by_topic(metadata.partitions).items()
        ]
    return TransactionLogValue(
        producer_id=metadata.producer_id,
        previous_producer_id=metadata.previous_producer_id,
        next_producer_id=metadata.next_producer_id,
        producer_epoch=metadata.producer_epoch,
        transaction_timeout_ms=metadata.timeout_ms,
        transaction_status=metadata.state,
        transaction_partitions=partitions,
        transaction_last_update_timestamp_ms=metadata.last_update_ms,
        transaction_start_timestamp_ms=metadata.start_ms,
        client_transaction_version=metadata.client_version,
    )


def _metadata(name: str, value: TransactionLogValue) -> TransactionMetadata:
    """Return what a value says; partitions beside Empty are not looked at, as in Kafka."""
    if value.transaction_status not in STORED:
        raise BadValue(f"transaction state {value.transaction_status}")
    return TransactionMetadata(
        transactional_id=name,
        producer_id=value.producer_id,
        producer_epoch=value.producer_epoch,
        previous_producer_id=value.previous_producer_id,
        next_producer_id=value.next_producer_id,
        timeout_ms=value.transaction_timeout_ms,
        state=TransactionState(value.transaction_status),
        partitions=_partitions(value),
        start_ms=value.transaction_start_timestamp_ms,
        last_update_ms=value.transaction_last_update_timestamp_ms,
        client_version=value.client_transaction_version,
    )


def _partitions(value: TransactionLogValue) -> frozenset[TopicPartition]:
    if value.transaction_status == TransactionState.EMPTY:
        return frozenset()
    return frozenset(
        TopicPartition(topic.topic, partition)
        for topic in value.transaction_partitions or ()
        for partition in topic.partition_ids
    )
