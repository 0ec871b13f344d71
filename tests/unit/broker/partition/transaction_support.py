"""Batches and markers of transactions, as tests of partitions write them."""

from tailrace.broker.partition.appends import Append
from tailrace.broker.partition.partition_log import PartitionLog
from tailrace.protocol.records.batch import TRANSACTIONAL
from tailrace.protocol.records.record import Producer, Record, build_batch


def transactional(producer: int, sequence: int, *, epoch: int = 0, count: int = 1) -> memoryview:
    """Return a batch of a transaction."""
    records = [Record(offset=i, key=b"k", value=b"v%d" % i) for i in range(count)]
    made_by = Producer(producer, epoch, sequence)
    return memoryview(build_batch(records, producer=made_by, attributes=TRANSACTIONAL))


def write(
    log: PartitionLog, producer: int, sequence: int, *, epoch: int = 0, count: int = 1
) -> Append:
    """Append a verified batch of a transaction, as the produce handler does."""
    data = transactional(producer, sequence, epoch=epoch, count=count)
    return log.append(data, log.check(data), verified=True)


def end(
    log: PartitionLog, producer: int, *, epoch: int = 0, coordinator: int = 0, commit: bool = True
) -> Append:
    """Append a marker."""
    return log.append_marker(producer, epoch, coordinator, commit)
