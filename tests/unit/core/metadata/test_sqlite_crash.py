"""kill -9 of a process that does multis: what it was told is there, and nothing by half."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tailrace.core.metadata.sqlite import SqliteStore
from tailrace.core.runtime.clock import ManualClock

pytestmark = pytest.mark.crash

ROOT = Path(__file__).parents[4]

# Each round is one multi over three nodes; its number is printed only after it was acknowledged.
CHILD = """
import asyncio, sys
from tailrace.core.metadata.sqlite import SqliteStore
from tailrace.core.metadata.store import Create, SetData
from tailrace.core.runtime.clock import SystemClock

async def worker(store, name):
    number = 0
    while True:
        number += 1
        data = b"%d" % number
        ops = [SetData(f"/{name}/a", data, number - 1), Create(f"/{name}/a/{number}", data)]
        ops.append(SetData(f"/{name}/b", data, number - 1))
        await store.multi(ops)
        print(name, number, flush=True)

async def main():
    store = SqliteStore(sys.argv[1], SystemClock())
    for name in ("x", "y", "z"):
        await store.create(f"/{name}/a", parents=True)
        await store.create(f"/{name}/b")
        await store.create(f"/{name}/ephemeral", ephemeral=True)
    async with asyncio.TaskGroup() as group:
        for name in ("x", "y", "z"):
            group.create_task(worker(store, name))

asyncio.run(main())
"""


@pytest.mark.parametrize("acknowledged", [1, 20, 75])
def test_killed_process_loses_nothing_acknowledged(tmp_path: Path, acknowledged: int) -> None:
    path = tmp_path / "metadata"
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(path)],
        stdout=subprocess.PIPE,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert child.stdout is not None
    lines = [child.stdout.readline() for _ in range(acknowledged)]
    child.send_signal(signal.SIGKILL)
    lines += [line for line in child.stdout.readlines() if line.endswith(b"\n")]
    child.stdout.close()
    child.wait()
    told = dict.fromkeys("xyz", 0)
    for line in lines:
        name, number = line.decode().split()
        told[name] = int(number)
    assert sum(told.values()) >= acknowledged

    async def look() -> None:
        store = SqliteStore(path, ManualClock())
        for name, number in told.items():
            a, b = await store.get(f"/{name}/a"), await store.get(f"/{name}/b")
            made = int(a.data or b"0")
            assert made >= number
            assert (a.data, a.version) == (b.data, b.version)
            assert sorted(map(int, await store.children(f"/{name}/a"))) == list(range(1, made + 1))
            assert await store.exists(f"/{name}/ephemeral") is None
        await store.close()

    asyncio.run(look())
