"""A bookie under load is killed with kill -9, at random moments, again and again.

What it acknowledged is noted by the child in a pipe that outlives it. After each kill the bookie
is opened here: every acknowledged entry is there, byte for byte, and nothing corrupt is served.
"""

import asyncio
import functools
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tailrace.bookie.app import OpenBookie, open_bookie
from tailrace.bookie.config import BookieConfig
from tailrace.core.runtime.clock import SystemClock
from tailrace.core.runtime.files import SystemFiles
from tailrace.protocol.bookkeeper.digest import Digest, DigestType, ledger_master_key
from tailrace.protocol.bookkeeper.entry import pack_entry
from tailrace.protocol.bookkeeper.messages import AddRequest, ReadRequest, Response, StatusCode
from tailrace.protocol.ids import LedgerId

KEY = ledger_master_key(b"")
DIGEST = Digest(DigestType.CRC32)
LEDGERS = 5
KILLS = 12
ROOT = Path(__file__).parents[2]


def config(directory: Path, *, journal_write_data: bool) -> BookieConfig:
    return BookieConfig(
        journal_directories=(directory / "journal",),
        ledger_directories=(directory / "ledgers",),
        journal_write_data=journal_write_data,
        preallocate_mb=1,
        log_size_limit=3_000_000,
        flush_entry_log_bytes=1_000_000,
    )


def payload(ledger_id: int, entry_id: int) -> bytes:
    rng = random.Random(ledger_id << 32 | entry_id)
    return rng.randbytes(rng.choice((20, 300, 5000, 40_000)))


def body(ledger_id: int, entry_id: int) -> tuple[bytes, ...]:
    data = payload(ledger_id, entry_id)
    parts = pack_entry(LedgerId(ledger_id), entry_id, entry_id - 1, len(data), (data,), DIGEST)
    return tuple(bytes(part) for part in parts)


async def serve_load(directory: Path, journal_write_data: bool, first: list[int]) -> None:
    """In the child: add without end, print each acknowledged entry."""
    bookie = await open_bookie(
        config(directory, journal_write_data=journal_write_data),
        None,
        SystemClock(),
        SystemFiles(),
    )
    os.write(1, b"open\n")
    following = list(first)
    loop = asyncio.get_running_loop()

    def send(ledger: int) -> None:
        entry_id = following[ledger]
        following[ledger] += 1

        def note(response: Response) -> None:
            assert response.status is StatusCode.EOK, response
            os.write(1, b"%d %d\n" % (ledger, entry_id))
            loop.call_soon(send, ledger)

        request = AddRequest(LedgerId(ledger), entry_id, KEY, body(ledger, entry_id))
        bookie.submit(request, note)

    for number in range(4 * LEDGERS):
        send(number % LEDGERS)
    await loop.create_future()


def run_and_kill(
    directory: Path, journal_write_data: bool, first: list[int], after_s: float
) -> dict[int, set[int]]:
    """Return the entries of each ledger that were acknowledged before the kill."""
    child = subprocess.Popen(
        [sys.executable, __file__, str(directory), str(int(journal_write_data)), *map(str, first)],
        stdout=subprocess.PIPE,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert child.stdout is not None
    assert child.stdout.readline() == b"open\n"
    time.sleep(after_s)
    child.send_signal(signal.SIGKILL)
    lines = child.stdout.read().split(b"\n")[:-1]
    child.stdout.close()
    assert child.wait() == -signal.SIGKILL
    acked: dict[int, set[int]] = {ledger: set() for ledger in range(LEDGERS)}
    for line in lines:
        ledger, entry_id = map(int, line.split())
        acked[ledger].add(entry_id)
    return acked


async def check(bookie: OpenBookie, acked: dict[int, set[int]], first: list[int]) -> list[int]:
    """Return the first entry id of each ledger that is free."""
    loop = asyncio.get_running_loop()
    free = []
    for ledger in range(LEDGERS):
        entry_id = first[ledger]
        last = max(acked[ledger], default=-1)
        while True:
            answer: asyncio.Future[Response] = loop.create_future()
            bookie.submit(ReadRequest(LedgerId(ledger), entry_id), answer.set_result)
            response = await answer
            if response.status is not StatusCode.EOK:
                assert entry_id not in acked[ledger], (ledger, entry_id, response.status)
                if entry_id > last:
                    break
            else:
                assert response.body == b"".join(body(ledger, entry_id))  # type: ignore[union-attr]
            entry_id += 1
        free.append(entry_id)
    return free


async def look_at(
    directory: Path, journal_write_data: bool, acked: dict[int, set[int]], first: list[int]
) -> list[int]:
    bookie = await open_bookie(
        config(directory, journal_write_data=journal_write_data),
        None,
        SystemClock(),
        SystemFiles(),
    )
    free = await check(bookie, acked, first)
    await bookie.close()
    return free


@pytest.mark.crash
@pytest.mark.parametrize("journal_write_data", [False, True])
def test_kill_under_load(tmp_path: Path, journal_write_data: bool) -> None:
    rng = random.Random(journal_write_data)
    first = [0] * LEDGERS
    everything: dict[int, set[int]] = {ledger: set() for ledger in range(LEDGERS)}
    for turn in range(KILLS):
        acked = run_and_kill(tmp_path, journal_write_data, first, rng.random() * 0.4)
        for ledger, entries in acked.items():
            everything[ledger] |= entries

        look = functools.partial(look_at, tmp_path, journal_write_data)
        if turn == KILLS - 1:
            first = asyncio.run(look(everything, [0] * LEDGERS))
        else:
            first = asyncio.run(look(acked, first))
    assert sum(map(len, everything.values())) > 100


if __name__ == "__main__":
    asyncio.run(serve_load(Path(sys.argv[1]), sys.argv[2] == "1", [int(n) for n in sys.argv[3:]]))
