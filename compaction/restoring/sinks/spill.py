"""Changes on disk, parted by key, for data larger than memory: one file for each save.

    file    = blocks | directory (JSON) | u32 length of the directory
    block   = (u32 length of key | i32 length of value, -1 deleted | key | value)*
    directory = {partition: [[bucket, position, bytes, records, crc32c], ...]}

A key is always in the same bucket, so a bucket's blocks, taken in the order of the saves, give
its latest values without a look at any other.
"""

import json
import os
import struct
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

from tailrace.compaction.restoring.errors import WrongCheckpoint
from tailrace.compaction.restoring.records import Changes
from tailrace.core.runtime.files import Files
from tailrace.core.runtime.stored_json import NOT_JSON
from tailrace.protocol.crc32c import crc32c
from tailrace.protocol.ids import Position

BUCKETS = 64
_LENGTHS = struct.Struct(">Ii")
_LENGTH = struct.Struct(">I")
_RECORD_BYTES = 200
"""What Python keeps for a key and a value in a dict, beside their bytes."""

Directory = dict[str, list[tuple[int, int, int, int, int]]]


class Block(NamedTuple):
    """Where a bucket's changes of one save are."""

    save: int
    position: Position
    size_bytes: int
    records: int
    crc: int

    @property
    def memory_bytes(self) -> int:
        """What it takes at most when it is folded."""
        return self.size_bytes + _RECORD_BYTES * self.records


class Spill:
    """The files of one folder. Errors: OSError; WrongCheckpoint for a file that is not whole."""

    def __init__(self, files: Files, folder: Path) -> None:
        self._files = files
        self._folder = folder

    def write(self, save: int, changes: Mapping[int, Changes]) -> None:
        """Write a save's changes; they are on disk on return. A file of that number is replaced."""
        parts: list[bytes] = []
        position = 0
        directory: Directory = {}
        for partition, some in changes.items():
            rows = directory.setdefault(str(partition), [])
            for bucket, (records, block) in _blocks(some).items():
                rows.append((bucket, position, len(block), records, crc32c(block)))
                parts.append(bytes(block))
                position += len(block)
        footer = json.dumps(directory).encode()
        parts += (footer, _LENGTH.pack(len(footer)))
        fd = self._files.open(self._path(save), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        try:
            self._files.write_at(fd, parts, 0)
            self._files.sync(fd)
        finally:
            self._files.close(fd)
        self._files.sync_directory(self._folder)

    def blocks(self, partition: int, saves: int) -> dict[int, list[Block]]:
        """Return the blocks of a partition by bucket, each in the order of the saves."""
        found: dict[int, list[Block]] = {}
        for save in range(1, saves + 1):
            for bucket, *rest in self._directory(save).get(str(partition), ()):
                found.setdefault(bucket, []).append(Block(save, *rest))
        return found

    def fold(self, blocks: Sequence[Block], turn: int, turns: int) -> dict[bytes, bytes]:
        """Return the latest values of every `turns`-th part of a bucket's keys."""
        values: dict[bytes, bytes] = {}
        for block in blocks:
            for key, value in _records(self._read(block)):
                if crc32(key) // BUCKETS % turns != turn:
                    continue
                if value is None:
                    values.pop(key, None)
                else:
                    values[key] = value
        return values

    def clear(self) -> None:
        """Remove all files."""
        for name in self._files.names(self._folder):
            if name.startswith(_PREFIX):
                self._files.remove(self._folder / name)

    def _path(self, save: int) -> Path:
        return self._folder / f"{_PREFIX}{save:08d}"

    def _directory(self, save: int) -> Directory:
        path = self._path(save)
        try:
            fd = self._files.open(path)
        except FileNotFoundError as error:
            raise _lost(path, "is missing") from error
        try:
            end = self._files.size(fd) - _LENGTH.size
            (length,) = _LENGTH.unpack(self._files.read_at(fd, _LENGTH.size, max(end, 0)))
            if length > end:
                raise _lost(path, "is cut")
            found: Directory = json.loads(self._files.read_at(fd, length, end - length))
        except (struct.error, *NOT_JSON) as error:
            raise _lost(path, "is cut") from error
        finally:
            self._files.close(fd)
        return found

    def _read(self, block: Block) -> bytes:
        path = self._path(block.save)
        fd = self._files.open(path)
        try:
            data = self._files.read_at(fd, block.size_bytes, block.position)
        finally:
            self._files.close(fd)
        if crc32c(data) != block.crc:
            raise _lost(path, "is cut or changed")
        return data


_PREFIX = "save-"


def _blocks(changes: Changes) -> dict[int, tuple[int, bytearray]]:
    """Part changes by bucket; with each block comes how many records it has."""
    blocks = [bytearray() for _ in range(BUCKETS)]
    counts = [0] * BUCKETS
    for key, value in changes.items():
        bucket = crc32(key) % BUCKETS
        block = blocks[bucket]
        counts[bucket] += 1
        block += _LENGTHS.pack(len(key), -1 if value is None else len(value))
        block += key
        block += value or b""
    return {
        bucket: (counts[bucket], block) for bucket, block in enumerate(blocks) if counts[bucket]
    }


def _records(block: bytes) -> Iterator[tuple[bytes, bytes | None]]:
    at = 0
    while at < len(block):
        key_length, value_length = _LENGTHS.unpack_from(block, at)
        at += _LENGTHS.size
        value_at = at + key_length
        end = value_at + max(value_length, 0)
        yield block[at:value_at], None if value_length < 0 else block[value_at:end]
        at = end


def _lost(path: Path, what: str) -> WrongCheckpoint:
    return WrongCheckpoint(
        f"a file that the checkpoint needs {what}", place=str(path), remedy="start over (`--fresh`)"
    )
