"""What BookKeeper's second write costs: every entry in the journal and in the entry log, or once.

    python -m tests.bench.second_write [--directory DIR] [--mib 256] [--rounds 5]

Uses the bookie's own file code, one thread, as its writer thread does: a group is one vectored
write and one fdatasync. "once" syncs the entry log; "twice" syncs the journal, writes the entry log
behind it and syncs that after every 256 MiB (flushEntrylogBytes), as a checkpoint does. Rounds are
interleaved, so that a busy disk hits both alike.
"""

import argparse
import json
import os
import shutil
import statistics
import tempfile
import time
from pathlib import Path

from tailrace.bookie.group_format import pack_size
from tailrace.bookie.grouped_file import EntryLog, Journal
from tailrace.bookie.ledger_dirs import LedgerDirs
from tailrace.core.runtime.files import SystemFiles
from tailrace.protocol.ids import Buffer

MIB = 1024 * 1024
CHECKPOINT_BYTES = 256 * MIB


def entries(group_bytes: int, entry_bytes: int) -> list[Buffer]:
    """Return the parts of one group: size field and body of each entry, in two pieces."""
    parts: list[Buffer] = []
    for number in range(group_bytes // entry_bytes):
        head = (1).to_bytes(8, "big") + number.to_bytes(8, "big") + bytes(24)
        parts += [pack_size(entry_bytes), head, os.urandom(entry_bytes - len(head))]
    return parts


def write_groups(directory: Path, parts: list[Buffer], total: int, *, twice: bool) -> float:
    """Return MB/s of entries."""
    files = SystemFiles()
    journal = Journal(files, directory, 1)
    journal.size_max = 2**31
    (directory / "current").mkdir()
    entry_log = EntryLog(files, LedgerDirs(files, [directory]), None)
    journal.step = entry_log.step = 16 * MIB
    size = sum(map(len, parts))
    written = unsynced = 0
    started = time.perf_counter()
    while written < total:
        if twice:
            journal.append(list(parts))
        entry_log.append(list(parts), size, synced=not twice)
        written += size
        unsynced += size
        if twice and unsynced >= CHECKPOINT_BYTES:
            sync_log(files, directory)
            unsynced = 0
    if twice:
        sync_log(files, directory)
    elapsed_s = time.perf_counter() - started
    journal.close()
    entry_log.close()
    return written / elapsed_s / 1e6


def sync_log(files: SystemFiles, directory: Path) -> None:
    fd = files.open(directory / "current" / "0.log", os.O_RDWR)
    files.sync(fd)
    files.close(fd)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--directory", type=Path, default=None)
    parser.add_argument("--mib", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    results: dict[str, dict[str, list[float]]] = {}
    for _ in range(arguments.rounds):
        for group_bytes in (128 * 1024, MIB):
            parts = entries(group_bytes, 16 * 1024)
            for name in ("once", "twice"):
                directory = Path(tempfile.mkdtemp(dir=arguments.directory))
                speed = write_groups(directory, parts, arguments.mib * MIB, twice=name == "twice")
                shutil.rmtree(directory)
                key = f"{group_bytes // 1024} KiB groups"
                results.setdefault(key, {}).setdefault(name, []).append(round(speed))
    for key, speeds in results.items():
        once, twice = (statistics.median(speeds[name]) for name in ("once", "twice"))
        cost = f"the second write costs {1 - twice / once:.0%}"
        print(f"{key}: once {once:.0f} MB/s, twice {twice:.0f} MB/s: {cost}")
    print(json.dumps(results))


if __name__ == "__main__":
    main()
