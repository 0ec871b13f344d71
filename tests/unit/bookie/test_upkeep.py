"""Checkpoints that fail: what they did not cover stays in the tail that the next start replays."""

import asyncio
import errno
import os
import shutil
import threading
from pathlib import Path

import pytest
from typing_extensions import override

from tailrace.bookie.errors import StorageFailed
from tailrace.core.runtime.files import SystemFiles
from tailrace.protocol.bookkeeper.messages import StatusCode
from tests.unit.bookie.world import L1, L2, add, ask, open_small, read, run

EOK = StatusCode.EOK


class FailsOnce(SystemFiles):
    """The next sync of a file with this suffix waits for the gate and fails; later ones do not."""

    def __init__(self) -> None:
        self.suffix = ""
        self.gate = threading.Event()
        self._paths: dict[int, Path] = {}

    @override
    def open(self, path: Path, flags: int = os.O_RDONLY) -> int:
        fd = super().open(path, flags)
        self._paths[fd] = path
        return fd

    @override
    def sync(self, fd: int) -> None:
        if self.suffix and self._paths[fd].suffix == self.suffix:
            self.suffix = ""
            assert self.gate.wait(20)
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        super().sync(fd)


@pytest.mark.parametrize(
    ("journal_write_data", "suffix"), [(False, ".idx"), (True, ".idx"), (True, ".log")]
)
def test_no_checkpoint_follows_one_whose_sync_failed(
    tmp_path: Path, journal_write_data: bool, suffix: str
) -> None:
    """Not even one that waits for it: its marks would pass what no index file has."""

    async def story() -> None:
        live, dead = tmp_path / "live", tmp_path / "dead"
        files = FailsOnce()
        bookie = await open_small(live, files, journal_write_data=journal_write_data)
        for entry_id in range(3):
            assert (await ask(bookie, add(L1, entry_id))).status is EOK
        files.suffix = suffix
        first = bookie._storage.upkeep.checkpoint()
        assert (await ask(bookie, add(L2, 0))).status is EOK
        behind = bookie._storage.upkeep.checkpoint()
        files.gate.set()
        results = await asyncio.gather(first, behind, return_exceptions=True)
        assert isinstance(results[0], OSError)
        assert isinstance(results[1], OSError | StorageFailed)
        assert bookie.failed.done()
        with pytest.raises((OSError, StorageFailed)):
            await bookie.checkpoint()
        shutil.copytree(live, dead)
        await bookie.close()
        again = await open_small(dead, journal_write_data=journal_write_data)
        for ledger_id, entry_id in ((L1, 0), (L1, 1), (L1, 2), (L2, 0)):
            answer = await ask(again, read(ledger_id, entry_id))
            assert answer.status is EOK, (ledger_id, entry_id)
        await again.close()

    run(story)
