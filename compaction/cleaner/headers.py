"""The headers of a block of batches as columns: one array for each field. Pure.

A batch of 16 KB holds some ten records, so what is done for each batch costs as much as what is
done for its records: it is done for all batches of a block at once. Source: reference Kafka 3.1.
"""

from collections.abc import Sequence
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from tailrace.compaction.cleaner.block import Block, rows_of
from tailrace.compaction.cleaner.errors import CorruptBatch
from tailrace.protocol.crc32c import crc32c
from tailrace.protocol.errors import DecodeError
from tailrace.protocol.ids import Buffer
from tailrace.protocol.records.batch import (
    CODEC_MASK,
    CONTROL,
    CRC_FROM,
    DELETE_HORIZON,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    MAGIC,
    NO_PRODUCER_ID,
    TRANSACTIONAL,
    BatchHeader,
    read_header,
    verify_crc,
)

Ints: TypeAlias = npt.NDArray[np.int64]
Choice: TypeAlias = npt.NDArray[np.bool_]

_TYPES: Final = ("i8", "i4", "i4", "i1", "u4", "i2", "i4", "i8", "i8", "i8", "i2", "i4", "i4")
_STORED: Final = np.dtype(
    [(name, ">" + type_) for name, type_ in zip(BatchHeader._fields, _TYPES, strict=True)]
)
_NATIVE: Final = _STORED.newbyteorder("=")


class Headers:
    """Headers in the order of their batches; a property is an array with one value for each."""

    __slots__ = ("_rows",)

    def __init__(self, rows: npt.NDArray[np.void]) -> None:
        self._rows = rows

    @classmethod
    def of(cls, batches: Sequence[Buffer]) -> "Headers":
        """Return those of batches that are known to be whole, whatever they say."""
        stored = b"".join([memoryview(batch)[:HEADER_SIZE] for batch in batches])
        return cls(np.frombuffer(stored, _STORED).astype(_NATIVE))

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, at: int) -> BatchHeader:
        return BatchHeader._make(self._rows[at].item())

    def take(self, places: npt.NDArray[np.intp]) -> "Headers":
        """Return some of them, as a copy."""
        return Headers(self._rows[places])

    def change(self, field: str, values: Ints) -> None:
        """Give a field of BatchHeader other values."""
        self._rows[field] = values

    def pack(self) -> bytes:
        """Return the bytes of all, one behind the other."""
        return self._rows.astype(_STORED).tobytes()

    def _field(self, name: str) -> Ints:
        values: Ints = self._rows[name].astype(np.int64)
        return values

    def _has(self, flags: int) -> Choice:
        has: Choice = (self._rows["attributes"] & flags) != 0
        return has

    @property
    def base_offset(self) -> Ints:
        """First offset."""
        return self._field("base_offset")

    @property
    def last_offset_delta(self) -> Ints:
        """Distance from the first offset to the last one."""
        return self._field("last_offset_delta")

    @property
    def last_offset(self) -> Ints:
        """Of the last record that the batch was made with."""
        return self.base_offset + self.last_offset_delta

    @property
    def size_bytes(self) -> Ints:
        """Of the whole batch."""
        return self._field("batch_length") + LOG_OVERHEAD

    @property
    def record_count(self) -> Ints:
        """Records in it, markers too."""
        return self._field("record_count")

    @property
    def base_timestamp(self) -> Ints:
        """What its records' timestamps count from."""
        return self._field("base_timestamp")

    @property
    def max_timestamp(self) -> Ints:
        """Largest of its records."""
        return self._field("max_timestamp")

    @property
    def crc(self) -> Ints:
        """Checksum that it carries."""
        return self._field("crc")

    @property
    def has_codec(self) -> Choice:
        """Whether its records are compressed."""
        return self._has(CODEC_MASK)

    @property
    def codec(self) -> Ints:
        """Number of its codec."""
        return self._field("attributes") & CODEC_MASK

    @property
    def is_log_append_time(self) -> Choice:
        """Whether every record's time is `max_timestamp`."""
        return self._has(LOG_APPEND_TIME)

    @property
    def is_control(self) -> Choice:
        """Whether it holds a marker."""
        return self._has(CONTROL)

    @property
    def is_of_transaction(self) -> Choice:
        """Whether it is a marker or belongs to a transaction."""
        return self._has(CONTROL | TRANSACTIONAL)

    @property
    def has_delete_horizon(self) -> Choice:
        """Whether the base timestamp is a delete horizon."""
        return self._has(DELETE_HORIZON)

    @property
    def has_producer_id(self) -> Choice:
        """Whether an idempotent producer made it."""
        has: Choice = self._rows["producer_id"] != NO_PRODUCER_ID
        return has

    @property
    def is_magic(self) -> Choice:
        """Whether it is of the one format that is read here."""
        is_magic: Choice = self._rows["magic"] == MAGIC
        return is_magic


def read_headers(block: Block) -> Headers:
    """Read and check whole batches with their CRCs. Errors: CorruptBatch, of the first bad one."""
    sizes = block.sizes
    if (sizes < HEADER_SIZE).any():
        raise _first_error(block)
    rows = rows_of(block.data, block.starts, HEADER_SIZE)
    headers = Headers(rows.view(_STORED).reshape(-1).astype(_NATIVE))
    data = memoryview(block.data)
    spans = zip((block.starts + CRC_FROM).tolist(), block.ends.tolist(), strict=True)
    crcs = np.array([crc32c(data[first:end]) for first, end in spans], np.int64)
    if (headers.is_magic & (headers.size_bytes == sizes) & (headers.crc == crcs)).all():
        return headers
    raise _first_error(block)


def _first_error(block: Block) -> CorruptBatch:
    """Say what is wrong with the first batch that is not whole; there is one."""
    for index in range(len(block.starts)):
        batch = block.batch(index)
        offset = int.from_bytes(bytes(batch[:8]), "big", signed=True)
        try:
            header = read_header(batch)
            if header.size_bytes != len(batch):
                return CorruptBatch(index, offset, f"{header.size_bytes} bytes in {len(batch)}")
            verify_crc(batch)
        except DecodeError as error:
            return CorruptBatch(index, offset, str(error))
    raise AssertionError("what all batches pass one by one they pass together")
