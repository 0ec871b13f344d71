import asyncio
import errno
import os
from pathlib import Path
from queue import SimpleQueue
from random import Random

import pytest

from tailrace.core.runtime.files import Files, LockHeld, SystemFiles, write_atomically
from tailrace.simulation.disk import SimDisk
from tailrace.simulation.files import SimFiles
from tailrace.simulation.loop import SimLoop
from tailrace.simulation.nemesis import Nemesis
from tailrace.simulation.schedule import run_story
from tailrace.simulation.trace import Trace
from tailrace.simulation.workers import VirtualRunner
from tailrace.simulation.workload import Workload
from tailrace.simulation.world import World

CREATE = os.O_RDWR | os.O_CREAT


def new_disk(seed: int = 0) -> SimDisk:
    return SimDisk("m", Random(seed), Trace(now_s=lambda: 0.0), lambda _: 0.0)


@pytest.fixture(params=["system", "simulated"])
def files(request: pytest.FixtureRequest, tmp_path: Path) -> Files:
    if request.param == "system":
        return SystemFiles()
    simulated = SimFiles(new_disk())
    simulated.make_directory(tmp_path)
    return simulated


def test_both_file_layers_tell_the_same_story(files: Files, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        files.open(tmp_path / "a")
    with pytest.raises(FileNotFoundError):
        files.open(tmp_path / "none" / "a", CREATE)
    fd = files.open(tmp_path / "a", CREATE)
    files.write_at(fd, [b"one", memoryview(b"two")], 0)
    files.write_at(fd, [b"x"], 10)
    assert files.read_at(fd, 100, 0) == b"onetwo\0\0\0\0x"
    assert files.read_at(fd, 3, 3) == b"two"
    assert files.read_at(fd, 3, 11) == b""
    files.allocate(fd, 8, 12)
    assert files.size(fd) == 20
    files.allocate(fd, 0, 5)
    assert files.size(fd) == 20
    files.truncate(fd, 2)
    files.truncate(fd, 4)
    assert files.read_file(tmp_path / "a") == b"on\0\0"
    files.sync(fd)
    again = files.open(tmp_path / "a")
    files.replace(tmp_path / "a", tmp_path / "b")
    assert files.read_at(again, 9, 0) == b"on\0\0"
    files.make_directory(tmp_path / "d" / "e")
    assert files.names(tmp_path) == ["b", "d"]
    assert files.names(tmp_path / "d") == ["e"]
    assert files.names(tmp_path / "none") == []
    files.remove(tmp_path / "b")
    files.remove(tmp_path / "b")
    files.sync_directory(tmp_path)
    assert files.read_file(tmp_path / "b") is None
    assert files.read_at(fd, 9, 0) == b"on\0\0"
    fd2 = files.open(tmp_path / "c", CREATE)
    files.write_at(fd2, [b"gone"], 0)
    files.close(files.open(tmp_path / "c", os.O_WRONLY | os.O_TRUNC))
    assert files.size(fd2) == 0
    for opened in (fd, again, fd2):
        files.close(opened)
    lock = files.lock(tmp_path / "LOCK", "test")
    with pytest.raises(LockHeld, match="in use"):
        files.lock(tmp_path / "LOCK", "test")
    files.close(lock)
    files.close(files.lock(tmp_path / "LOCK", "test"))
    assert files.space(tmp_path).free_bytes > 0


@pytest.mark.parametrize("seed", range(40))
def test_power_takes_only_what_was_not_synced(seed: int) -> None:
    disk = new_disk(seed)
    files, home = SimFiles(disk), Path("/m")
    files.make_directory(home)
    fd = files.open(home / "a", CREATE)
    files.write_at(fd, [b"A" * 2000], 0)
    files.sync(fd)
    files.sync_directory(home)
    files.write_at(fd, [b"B" * 2000], 1000)
    files.open(home / "unsynced name", CREATE)
    files.replace(home / "a", home / "b")
    disk.lose_power()
    tree = disk.tree()
    assert set(tree) in ({"/m/a"}, {"/m/a", "/m/unsynced name"}, {"/m/b", "/m/unsynced name"})
    data = tree.get("/m/a") or tree["/m/b"]
    assert data[:1000] == b"A" * 1000
    assert len(data) in (2000, 3000)
    for at in range(1000, len(data), 512):  # each block old, new, or zeros behind the old end
        block = data[at : at + 512]
        assert len({*block}) <= 2, block
        assert {*block} <= {*b"AB\0"}


def test_power_loss_has_many_outcomes() -> None:
    seen = set()
    for seed in range(60):
        disk = new_disk(seed)
        files = SimFiles(disk)
        files.make_directory(Path("/m"))
        fd = files.open(Path("/m/a"), CREATE)
        files.sync_directory(Path("/m"))
        files.write_at(fd, [b"C" * 1500], 0)
        disk.lose_power()
        data = disk.tree()["/m/a"]
        seen.add((len(data), data[:512].count(b"C"), data[1024:].count(b"C")))
    assert {0, 1500} <= {size for size, _, _ in seen}
    assert {0, 512} <= {first for _, first, _ in seen}
    assert len(seen) >= 5


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("stop", range(7))
def test_atomic_write_is_old_or_new(seed: int, stop: int) -> None:
    class Stop(BaseException):
        pass

    def crash() -> None:
        raise Stop

    disk = new_disk(seed)
    files, path = SimFiles(disk), Path("/m/a")
    files.make_directory(path.parent)
    write_atomically(files, path, b"old")
    disk.on_crash = crash
    disk.faults.crash_in = stop
    done = True
    try:
        write_atomically(files, path, b"new")
    except Stop:
        done = False
    disk.lose_power()
    found = files.read_file(path)
    assert found in (b"old", b"new")
    if done:
        assert found == b"new"


def test_faults_of_the_device() -> None:
    disk = new_disk()
    files = SimFiles(disk)
    files.make_directory(Path("/m"))
    fd = files.open(Path("/m/a"), CREATE)
    disk.faults.free_bytes = 100
    files.write_at(fd, [bytes(90)], 0)
    files.write_at(fd, [bytes(90)], 0)  # over what is there: no new room
    with pytest.raises(OSError, match="No space") as full:
        files.write_at(fd, [bytes(20)], 90)
    assert full.value.errno == errno.ENOSPC
    assert files.space(Path("/m")).free_bytes == 10
    disk.faults.free_bytes = None
    disk.faults.sync_error_share = 1.0
    with pytest.raises(OSError, match="error"):
        files.sync(fd)
    disk.faults.read_error_share = 1.0
    with pytest.raises(OSError, match="error"):
        files.read_at(fd, 1, 0)
    disk.faults.read_error_share = 0.0
    before = disk.tree()["/m/a"]
    assert disk.damage(".log") is None
    kinds = set()
    for _ in range(20):
        assert disk.damage("a", old_only=False) is not None
        after = disk.tree()["/m/a"]
        changed = sum((a ^ b).bit_count() for a, b in zip(before, after, strict=True))
        kinds.add(changed == 1)
        before = after
    assert kinds == {True, False}


def test_a_step_that_began_on_a_slow_disk_does_not_find_it_slow_for_ever() -> None:
    """A checkpoint asks for a hundred changes at one moment: it took minutes beyond the fault."""
    spent: list[float] = []

    def spend(seconds: float) -> float:
        spent.append(seconds)
        return sum(spent)

    disk = SimDisk("m", Random(1), Trace(now_s=lambda: 0.0), spend)
    disk.faults.slow_share, disk.faults.slow_s, disk.faults.slow_until_s = 1.0, 5.0, 8.0
    for _ in range(100):
        disk.boundary("sync", "/m/a")
    assert 8.0 < sum(spent) < 8.0 + disk.faults.slow_s + 100 * 2 * disk.faults.sync_s


def _start_step_of_changes(loop: SimLoop, disk: SimDisk) -> VirtualRunner:
    def step() -> bool:
        queue.get()
        for _ in range(300):
            disk.boundary("write", "/m/a")
        return True

    queue: SimpleQueue[None] = SimpleQueue()
    runner = loop.new_runner("changes", queue, step)
    runner.start()
    runner.put(None)
    return runner


def test_no_disk_stays_slow_when_all_is_made_good_again() -> None:
    async def tell(world: World) -> None:
        await world.start(3)
        workload = Workload(world, [])
        nemesis = Nemesis(
            world, replace_client=lambda _: None, workload=workload, tolerance=0, beyond=False
        )
        nemesis._kinds, nemesis._weights = [nemesis.slow_disk], [1]
        raging = world.loop.create_task(nemesis.rage(2.0, 0.1))
        await asyncio.sleep(1.5)
        runners = [_start_step_of_changes(world.loop, m.disk) for m in world.machines]
        await raging
        busy_until_s = [runner.free_at_s for runner in runners]
        assert max(busy_until_s) > world.loop.time() - 0.5, "no disk was slow"
        assert max(busy_until_s) < world.loop.time() + 6.0, "more than the last wait is left"

    assert run_story(1, tell).violations == ()


def test_damage_spares_what_a_power_loss_may_have_torn() -> None:
    """The last group of the newest file; of rolled files it spares nothing."""
    disk = new_disk()
    files = SimFiles(disk)
    for directory in ("/j", "/l", "/m"):
        files.make_directory(Path(directory))

    def written(path: str) -> None:
        fd = files.open(Path(path), CREATE)
        for at in (0, 512, 1024):
            files.write_at(fd, [b"x" * 512], at)
            files.sync(fd)
        files.close(fd)
        files.sync_directory(Path(path).parent)

    written("/j/1.txn")
    places = {disk.damage(".txn").partition("@")[2] for _ in range(300)}  # type: ignore[union-attr]
    assert max(map(int, places)) < 1024
    written("/j/2.txn")
    written("/l/1.log")
    written("/m/2.log")
    damaged = [disk.damage(suffix) or "" for suffix in (".txn", ".log") for _ in range(500)]
    for path, end in (
        ("/j/1.txn", 1536),
        ("/j/2.txn", 1024),
        ("/l/1.log", 1536),
        ("/m/2.log", 1024),
    ):
        places = {int(one.partition("@")[2]) for one in damaged if one.startswith(path)}
        assert end - 512 <= max(places) < end
