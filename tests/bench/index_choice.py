"""Where a bookie keeps entry locations: BookKeeper's index files against RocksDB and LMDB.

    python -m tests.bench.index_choice [--directory DIR] [--entries 400000] [--rounds 3]

The two databases are no dependencies of this project: install `rocksdict` and `lmdb` to compare.
A run stores `--entries` locations in checkpoints of 50,000, each synced, and looks 20,000 up at
random: cold (opened again, pages given back to the system) and warm (the same once more).
Two shapes, over few ledgers and over many: "sequential" (one ledger after the other, as after a
sorted catch-up) and "interleaved" (every checkpoint has some of each ledger).
"""

import argparse
import importlib
import importlib.util
import json
import os
import random
import shutil
import statistics
import struct
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Protocol

from tailrace.bookie.entry_reader import EntryReader
from tailrace.bookie.index_files import IndexFiles
from tailrace.bookie.index_format import IndexHeader
from tailrace.bookie.ledger_dirs import LedgerDirs
from tailrace.bookie.ledger_state import LocationTable
from tailrace.core.runtime.files import SystemFiles
from tailrace.protocol.ids import LedgerId

CHECKPOINT = 50_000
LOOKUPS = 20_000
_KEY = struct.Struct(">qq")
_VALUE = struct.Struct(">q")

Location = tuple[int, int, int]
"""Ledger id, entry id, location."""


class Index(Protocol):
    """One way to keep locations."""

    def write(self, batch: list[Location]) -> None:
        """Store a checkpoint's locations; they are on disk on return."""

    def find(self, ledger_id: int, entry_id: int) -> int:
        """Return a location."""

    def close(self) -> None:
        """Close everything."""


class Files:
    """Index files, with the bookie's own code and its cache of 8 MiB."""

    def __init__(self, directory: Path) -> None:
        self._files = SystemFiles()
        dirs = LedgerDirs(self._files, [directory])
        self._indexes = IndexFiles(self._files, dirs)
        self._reader = EntryReader(self._files, dirs, self._indexes, files_max=512, pages_max=1024)

    def write(self, batch: list[Location]) -> None:
        tables: dict[int, LocationTable] = {}
        for ledger_id, entry_id, location in batch:
            tables.setdefault(ledger_id, LocationTable()).put(entry_id, location)
        for ledger_id, table in tables.items():
            self._indexes.write(LedgerId(ledger_id), IndexHeader(b"k" * 20), [table])

    def find(self, ledger_id: int, entry_id: int) -> int:
        return self._reader.locate(LedgerId(ledger_id), entry_id, generation=0)

    def close(self) -> None:
        self._reader.close()


class Rocks:
    """RocksDB as DbLedgerStorage uses it: key ledger and entry id, one batch a checkpoint."""

    def __init__(self, directory: Path) -> None:
        self._rocks: Any = importlib.import_module("rocksdict")
        options = self._rocks.Options(raw_mode=True)
        options.create_if_missing(True)
        self._db = self._rocks.Rdict(str(directory / "rocks"), options)
        self._synced = self._rocks.WriteOptions()
        self._synced.sync = True
        self._db.set_write_options(self._synced)

    def write(self, batch: list[Location]) -> None:
        writes = self._rocks.WriteBatch(raw_mode=True)
        for ledger_id, entry_id, location in batch:
            writes.put(_KEY.pack(ledger_id, entry_id), _VALUE.pack(location))
        self._db.write(writes, self._synced)

    def find(self, ledger_id: int, entry_id: int) -> int:
        value: bytes = self._db[_KEY.pack(ledger_id, entry_id)]
        return int.from_bytes(value, "big")

    def close(self) -> None:
        self._db.close()


class Lmdb:
    """LMDB: one B+ tree, one transaction a checkpoint."""

    def __init__(self, directory: Path) -> None:
        lmdb: Any = importlib.import_module("lmdb")
        self._env = lmdb.open(str(directory / "lmdb"), map_size=2**33)

    def write(self, batch: list[Location]) -> None:
        with self._env.begin(write=True) as transaction:
            for ledger_id, entry_id, location in batch:
                transaction.put(_KEY.pack(ledger_id, entry_id), _VALUE.pack(location))

    def find(self, ledger_id: int, entry_id: int) -> int:
        with self._env.begin() as transaction:
            value: bytes = transaction.get(_KEY.pack(ledger_id, entry_id))
        return int.from_bytes(value, "big")

    def close(self) -> None:
        self._env.close()


KINDS: dict[str, tuple[type[Files] | type[Rocks] | type[Lmdb], str]] = {
    "index files": (Files, ""),
    "rocksdb": (Rocks, "rocksdict"),
    "lmdb": (Lmdb, "lmdb"),
}


def locations(shape: str, ledgers: int, entries: int) -> Iterator[Location]:
    """Return (ledger, entry, location) in the order they are stored."""
    per_ledger = entries // ledgers
    numbers: Iterable[tuple[int, int]]
    if shape == "sequential":
        numbers = ((ledger, entry) for ledger in range(ledgers) for entry in range(per_ledger))
    else:
        numbers = ((ledger, entry) for entry in range(per_ledger) for ledger in range(ledgers))
    for place, (ledger_id, entry_id) in enumerate(numbers):
        yield ledger_id, entry_id, 1024 + place * 1000


def measure(
    kind: type, shape: str, ledgers: int, entries: int, root: Path | None
) -> dict[str, Any]:
    """Return inserts/s, cold and warm look-ups/s, and bytes on disk."""
    directory = Path(tempfile.mkdtemp(dir=root))
    try:
        index: Index = kind(directory)
        everything = list(locations(shape, ledgers, entries))
        started = time.perf_counter()
        for first in range(0, len(everything), CHECKPOINT):
            index.write(everything[first : first + CHECKPOINT])
        inserts = len(everything) / (time.perf_counter() - started)
        index.close()
        forget_cached(directory)
        index = kind(directory)
        wanted = random.Random(1).sample(everything, LOOKUPS)
        cold, warm = look_up(index, wanted), look_up(index, wanted)
        index.close()
        return {
            "inserts/s": round(inserts),
            "cold/s": round(cold),
            "warm/s": round(warm),
            "MiB": round(used_bytes(directory) / 2**20, 1),
        }
    finally:
        shutil.rmtree(directory)


def look_up(index: Index, wanted: list[Location]) -> float:
    """Look all of them up; return how many a second."""
    started = time.perf_counter()
    for ledger_id, entry_id, location in wanted:
        if index.find(ledger_id, entry_id) != location:
            raise AssertionError(f"ledger {ledger_id} entry {entry_id}")
    return len(wanted) / (time.perf_counter() - started)


def files_of(directory: Path) -> Iterator[Path]:
    """Return all files below a directory."""
    return (path for path in directory.rglob("*") if path.is_file())


def forget_cached(directory: Path) -> None:
    """Give the files' pages back to the system."""
    os.sync()
    for path in files_of(directory):
        with path.open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def used_bytes(directory: Path) -> int:
    """Return what the files take on disk: blocks, not lengths."""
    return sum(path.stat().st_blocks * 512 for path in files_of(directory))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--directory", type=Path, default=None)
    parser.add_argument("--entries", type=int, default=400_000)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    for ledgers in (20, 2000):
        for shape in ("sequential", "interleaved"):
            for name, (kind, module) in KINDS.items():
                if module and importlib.util.find_spec(module) is None:
                    print(f"{name}: {module} is not installed")
                    continue
                runs = [
                    measure(kind, shape, ledgers, arguments.entries, arguments.directory)
                    for _ in range(arguments.rounds)
                ]
                result = {key: statistics.median(run[key] for run in runs) for key in runs[0]}
                print(f"{ledgers} ledgers {shape}: {name}: {json.dumps(result)}", flush=True)


if __name__ == "__main__":
    main()
