"""Control batches: the markers that end a transaction in a partition.

One record, never compressed, in a batch with the producer's id and epoch and without a sequence;
attributes control and transactional.

    key   := i16 version 0 | i16 type (0 abort, 1 commit)
    value := i16 version 0 | i32 coordinator epoch

Source: reference Kafka 3.2; EndTransactionMarker, ControlRecordType.
"""

from struct import Struct
from struct import error as struct_error
from typing import NamedTuple

from tailrace.protocol.errors import BadValue, BufferUnderflow
from tailrace.protocol.ids import Buffer
from tailrace.protocol.records.batch import CONTROL, NO_SEQUENCE, TRANSACTIONAL
from tailrace.protocol.records.record import Producer, Record, build_batch, iter_records

ABORT = 0
COMMIT = 1

_VERSION = 0
_KEY = Struct(">hh")
_VALUE = Struct(">hi")


class EndTransaction(NamedTuple):
    """What a marker says."""

    committed: bool
    coordinator_epoch: int


def build_marker(
    producer_id: int, producer_epoch: int, marker: EndTransaction, timestamp: int
) -> bytearray:
    """Return the control batch that ends a transaction; to be stamped as any other."""
    record = Record(
        timestamp=timestamp,
        key=_KEY.pack(_VERSION, COMMIT if marker.committed else ABORT),
        value=_VALUE.pack(_VERSION, marker.coordinator_epoch),
    )
    producer = Producer(producer_id, producer_epoch, NO_SEQUENCE)
    return build_batch([record], producer=producer, attributes=CONTROL | TRANSACTIONAL)


def read_marker(batch: Buffer) -> EndTransaction | None:
    """Return what a control batch says; None if compaction took its record.

    Later versions of key and value are read as version 0, as Kafka does.
    Errors: DecodeError family; BadValue for a control record that ends no transaction.
    """
    record = next(iter_records(batch), None)
    if record is None:
        return None
    try:
        version, kind = _KEY.unpack_from(record.key or b"")
        value_version, coordinator_epoch = _VALUE.unpack_from(record.value or b"")
    except struct_error:
        raise BufferUnderflow("a control record that is too short") from None
    if version < 0 or value_version < 0 or kind not in (ABORT, COMMIT):
        raise BadValue(f"control record of type {kind}, versions {version} and {value_version}")
    return EndTransaction(kind == COMMIT, coordinator_epoch)
