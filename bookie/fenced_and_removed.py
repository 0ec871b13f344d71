"""Ledgers that were fenced when they were removed: a late writer must still be refused.

Remembered for seven days, as by Java's bookie, and over restarts, where Java's forgets: in a small
file of each ledger directory. A writer that was paused all that time knows nothing of the ledger
that was closed and copied elsewhere, and a bookie that forgot the fence would acknowledge its adds.

    the file: for each ledger i64 id, i64 wall time of its removal in ms; replaced whole
"""

import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tailrace.core.errors import CorruptData
from tailrace.core.runtime.clock import Clock
from tailrace.core.runtime.files import Files, write_atomically
from tailrace.protocol.ids import LedgerId

FILE_NAME: Final = "fencedAndRemoved"
KEPT_MS: Final = 7 * 86_400_000
COUNT_MAX: Final = 100_000

_ENTRY: Final = struct.Struct(">qq")


class FencedAndRemoved:
    """A set of ledgers that forgets. `add` and look-ups come from the loop."""

    def __init__(self, clock: Clock, files: Files, directories: Sequence[Path]) -> None:
        self._clock = clock
        self._files = files
        self._directories = tuple(directories)
        self._since_ms: dict[LedgerId, int] = {}

    def load(self) -> None:
        """Read what former lives of the bookie removed. Blocks.

        Errors: OSError; CorruptData names the file: without it late writers are not refused.
        """
        for directory in self._directories:
            path = directory / FILE_NAME
            data = self._files.read_file(path) or b""
            if len(data) % _ENTRY.size:
                raise CorruptData(
                    f"{path}: {len(data)} bytes are no list of ledgers; delete it to forget them"
                )
            for ledger_id, since_ms in _ENTRY.iter_unpack(data):
                known_ms = self._since_ms.get(ledger_id, since_ms)
                self._since_ms[ledger_id] = max(known_ms, since_ms)

    def add(self, ledger_id: LedgerId) -> None:
        """Remember a ledger from now on; with too many the oldest goes."""
        self._since_ms.pop(ledger_id, None)
        self._since_ms[ledger_id] = self._clock.now_ms()
        if len(self._since_ms) > COUNT_MAX:
            del self._since_ms[next(iter(self._since_ms))]

    def save(self) -> None:
        """Remember over a restart what was added so far. Blocks; in any one thread.

        Errors: OSError. Cost: up to 1.6 MB and two syncs for each directory.
        """
        now_ms = self._clock.now_ms()
        kept = [each for each in list(self._since_ms.items()) if now_ms - each[1] < KEPT_MS]
        data = b"".join(_ENTRY.pack(*each) for each in kept)
        for directory in self._directories:
            write_atomically(self._files, directory / FILE_NAME, data)

    def __contains__(self, ledger_id: LedgerId) -> bool:
        since_ms = self._since_ms.get(ledger_id)
        return since_ms is not None and self._clock.now_ms() - since_ms < KEPT_MS
