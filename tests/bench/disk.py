"""What a write and its sync take on the disk that brokers are measured on, with nobody between."""

import os
import tempfile
import time
from pathlib import Path
from typing import Final

_BYTES: Final = 4096
_TIMES: Final = 2000
_WARM: Final = 200


def write_and_sync_ms(folder: Path) -> list[float]:
    """Return, sorted, how long each of many writes of a block took, with its sync. Unit: ms.

    As a journal writes: behind the last one, into room that was reserved.
    """
    took: list[float] = []
    block = os.urandom(_BYTES)
    with tempfile.TemporaryFile(dir=folder) as file:
        fd = file.fileno()
        os.posix_fallocate(fd, 0, (_WARM + _TIMES) * _BYTES)
        for number in range(_WARM + _TIMES):
            before = time.perf_counter()
            os.pwrite(fd, block, number * _BYTES)
            os.fdatasync(fd)
            took.append((time.perf_counter() - before) * 1e3)
    return sorted(took[_WARM:])
