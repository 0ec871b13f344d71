"""Records of transactional ids: there and back, and bytes that are none."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.broker.transactions.metadata import PREPARED, TransactionMetadata, TransactionState
from tailrace.broker.transactions.records import (
    STORED,
    TransactionUpdate,
    by_topic,
    read_record,
    tombstone,
    transaction_record,
)
from tailrace.protocol.errors import BadValue, DecodeError, ProtocolError, UnexpectedNull
from tailrace.protocol.ids import TopicPartition
from tailrace.protocol.kafka.messages.transaction_records import (
    PartitionsSchema,
    TransactionLogValue,
    encode_value,
)

PARTITIONS = st.frozensets(
    st.builds(TopicPartition, st.sampled_from(["a", "b", "c.d"]), st.integers(0, 9)), max_size=8
)
EPOCHS = st.integers(-1, 0x7FFF)
IDS = st.integers(-1, 2**40)


@st.composite
def stored(draw: st.DrawFn) -> TransactionMetadata:
    state = draw(st.sampled_from(sorted(STORED)))
    has_partitions = state in PREPARED or state is TransactionState.ONGOING
    return TransactionMetadata(
        transactional_id=draw(st.text(min_size=1, max_size=20)),
        producer_id=draw(IDS),
        producer_epoch=draw(EPOCHS),
        previous_producer_id=draw(IDS),
        next_producer_id=draw(IDS),
        timeout_ms=draw(st.integers(1, 900_000)),
        state=state,
        partitions=draw(PARTITIONS) if has_partitions else frozenset(),
        start_ms=draw(st.integers(-1, 2**41)),
        last_update_ms=draw(st.integers(0, 2**41)),
        client_version=draw(st.sampled_from([0, 2])),
    )


@given(stored())
def test_there_and_back(metadata: TransactionMetadata) -> None:
    record = transaction_record(metadata)
    name = metadata.transactional_id
    assert read_record(record.key, record.value) == TransactionUpdate(name, metadata)
    gone = tombstone(name)
    assert gone.key == record.key
    assert read_record(gone.key, gone.value) == TransactionUpdate(name, None)


@given(stored(), st.data())
def test_bytes_that_are_cut_are_refused(metadata: TransactionMetadata, data: st.DataObject) -> None:
    record = transaction_record(metadata)
    assert record.value is not None
    cut = record.value[: data.draw(st.integers(0, len(record.value) - 1))]
    with pytest.raises(ProtocolError):
        read_record(record.key, cut)


def test_partitions_of_an_empty_transaction_are_not_looked_at() -> None:
    """As in Kafka (TransactionLog.readTxnRecordValue), whose writer never has them there."""
    schema = PartitionsSchema(topic="t", partition_ids=[0, 1])
    for state, expected in ((TransactionState.EMPTY, 0), (TransactionState.ONGOING, 2)):
        value = TransactionLogValue(transaction_status=state, transaction_partitions=[schema])
        update = read_record(tombstone("x").key, encode_value(value))
        assert update is not None
        assert update.metadata is not None
        assert len(update.metadata.partitions) == expected


@pytest.mark.parametrize("state", [6, 7, 8, -1])
def test_states_that_are_never_stored_are_refused(state: int) -> None:
    value = encode_value(TransactionLogValue(transaction_status=state))
    with pytest.raises(BadValue):
        read_record(tombstone("x").key, value)


def test_other_kinds_of_records_are_not_ours() -> None:
    assert read_record(b"\0\x07rest", b"value") is None
    with pytest.raises(UnexpectedNull):
        read_record(None, b"value")
    with pytest.raises(DecodeError):
        read_record(b"\0", b"value")


def test_kafka_1s_value_is_read() -> None:
    """Version 0: no tags, fixed lengths."""
    found = read_record(
        tombstone("x").key,
        encode_value(TransactionLogValue(producer_id=7, transaction_status=4), version=0),
    )
    assert found is not None
    assert found.metadata is not None
    assert (found.metadata.producer_id, found.metadata.state) == (7, 4)


def test_partitions_are_in_order() -> None:
    partitions = {TopicPartition("b", 1), TopicPartition("a", 10), TopicPartition("a", 9)}
    assert by_topic(frozenset(partitions)) == {"a": [9, 10], "b": [1]}
