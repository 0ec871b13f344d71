"""Values in Parquet files, one for each partition, for data larger than memory.

DIR/partition=N/latest.parquet   columns key, value (binary): `partition` is in the path, as
Spark, DuckDB and pyarrow's datasets read it
DIR/_restore/                    checkpoint, and what is spilled until the end; readers of
Parquet leave out names that begin with an underscore
"""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet

from tailrace.compaction.restoring.checkpoint import (
    Checkpoint,
    decode_checkpoint,
    encode_checkpoint,
)
from tailrace.compaction.restoring.digest import Live, live_state, merged
from tailrace.compaction.restoring.errors import WrongCheckpoint
from tailrace.compaction.restoring.records import Changes
from tailrace.compaction.restoring.sinks.spill import Block, Spill
from tailrace.core.runtime.files import Files, LockHeld, SystemFiles, write_atomically

BUCKET_BYTES = 128 * 1024 * 1024
"""Memory for what is folded at a time; a larger bucket is folded in turns."""
_ROWS = 10_000
"""Rows that are looked at together when a finished file is read again."""
_SCHEMA = pyarrow.schema([("key", pyarrow.binary()), ("value", pyarrow.binary())])


class ParquetSink:
    """Writes Parquet below a folder.

    Memory: `bucket_bytes` at the end, and about 13 KB for each save. Disk: all changes until the
    end. Errors: WrongCheckpoint if another restore writes there; OSError for a full disk.
    """

    def __init__(
        self, folder: Path, bucket_bytes: int = BUCKET_BYTES, files: Files | None = None
    ) -> None:
        self.place = str(folder)
        self._folder = folder
        self._own = folder / "_restore"
        self._files = files or SystemFiles()
        self._bucket_bytes = bucket_bytes
        self._files.make_directory(self._own)
        self._spill = Spill(self._files, self._own)
        try:
            self._lock = self._files.lock(self._own / "lock", "restore")
        except LockHeld as error:
            raise WrongCheckpoint(str(error), place=self.place, remedy="another folder") from error

    def load(self) -> Checkpoint | None:
        """Return what was saved last; None if nothing was."""
        data = self._files.read_file(self._checkpoint)
        return None if data is None else decode_checkpoint(data, str(self._checkpoint))

    def clear(self) -> None:
        """Forget everything: the checkpoint first, so that nothing half is gone on with."""
        self._files.remove(self._checkpoint)
        self._files.sync_directory(self._own)
        self._spill.clear()
        for name in self._files.names(self._own):
            if name.startswith("partition="):
                self._files.remove(self._own / name)
        for name in self._files.names(self._folder):
            if name.startswith("partition="):
                self._files.remove(self._folder / name / _NAME)

    def save(self, changes: Mapping[int, Changes], checkpoint: Checkpoint) -> None:
        """Write the changes, then the checkpoint that counts them."""
        if changes:
            self._spill.write(checkpoint.saves, changes)
        write_atomically(self._files, self._checkpoint, encode_checkpoint(checkpoint))

    def finish(self, checkpoint: Checkpoint) -> dict[int, Live]:
        """Write the files, and remove what was spilled. Cost: all changes, read once or more."""
        if checkpoint.finished:
            self._spill.clear()  # a crash may have left it
            return {each: live_state(self._pairs(each)) for each in checkpoint.partitions}
        live = {each: self._write(each, checkpoint.saves) for each in checkpoint.partitions}
        checkpoint.finished = True
        self.save({}, checkpoint)
        self._spill.clear()
        return live

    def close(self) -> None:
        """Give back the lock. Idempotent."""
        if self._lock >= 0:
            self._files.close(self._lock)
            self._lock = -1

    @property
    def _checkpoint(self) -> Path:
        return self._own / "checkpoint.json"

    def _path(self, partition: int) -> Path:
        return self._folder / f"partition={partition}" / _NAME

    def _write(self, partition: int, saves: int) -> Live:
        spare = self._own / f"partition={partition}.parquet"
        found = []
        with pyarrow.parquet.ParquetWriter(spare, _SCHEMA, compression="zstd") as writer:
            for blocks in self._spill.blocks(partition, saves).values():
                for values in self._folded(blocks):
                    writer.write_table(_table(values))
                    found.append(live_state(values.items()))
        self._publish(spare, self._path(partition))
        return merged(found)

    def _folded(self, blocks: list[Block]) -> Iterator[dict[bytes, bytes]]:
        size = sum(block.memory_bytes for block in blocks)
        turns = -(-size // self._bucket_bytes)
        for turn in range(turns):
            yield self._spill.fold(blocks, turn, turns)

    def _publish(self, spare: Path, path: Path) -> None:
        fd = self._files.open(spare, os.O_RDWR)
        try:
            self._files.sync(fd)
        finally:
            self._files.close(fd)
        self._files.make_directory(path.parent)
        self._files.replace(spare, path)
        self._files.sync_directory(path.parent)

    def _pairs(self, partition: int) -> Iterator[tuple[bytes, bytes]]:
        with pyarrow.parquet.ParquetFile(self._path(partition)) as file:
            for batch in file.iter_batches(_ROWS):
                yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


_NAME = "latest.parquet"


def _table(values: Mapping[bytes, bytes]) -> Any:
    columns = [list(values), list(values.values())]
    arrays = [pyarrow.array(column, pyarrow.binary()) for column in columns]
    return pyarrow.Table.from_arrays(arrays, schema=_SCHEMA)
