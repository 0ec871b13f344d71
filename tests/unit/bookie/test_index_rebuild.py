"""Rebuilding index files from the entry logs: nothing is lost by it, and no fence is lifted."""

import shutil
from pathlib import Path

import pytest

from tailrace.bookie import entry_log_format
from tailrace.bookie.index_format import IndexHeader, pack_header
from tailrace.bookie.index_rebuild import Report, rebuild_indexes
from tailrace.core.errors import CorruptData
from tailrace.core.runtime.files import LockHeld, SystemFiles
from tailrace.protocol.bookkeeper.entry import pack_lac
from tailrace.protocol.bookkeeper.messages import ReadLacRequest, StatusCode, WriteLacRequest
from tailrace.protocol.ids import LedgerId
from tests.unit.bookie.crash_files import Crashed, CrashFiles
from tests.unit.bookie.test_index_damage import change, flip
from tests.unit.bookie.world import (
    DIGEST,
    KEY,
    L1,
    L2,
    OTHER_KEY,
    add,
    ask,
    entry_body,
    fence,
    open_small,
    read,
    run,
    small_config,
)

EOK, EIO = StatusCode.EOK, StatusCode.EIO
ENTRIES = 90
LOGS = "ledgers/current/*.log"


def index(ledger_id: int, suffix: str = "idx") -> str:
    return f"ledgers/current/0/{ledger_id:x}/{ledger_id:x}.{suffix}"


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A stopped bookie with several logs: L1 with a fence and an explicit LAC, L2 open."""
    directory = tmp_path_factory.mktemp("written")

    async def story() -> None:
        bookie = await open_small(directory, log_size_limit=9000)
        for entry_id in range(ENTRIES):
            for ledger_id in (L1, L2):
                assert (
                    await ask(bookie, add(ledger_id, entry_id, b"%d" % entry_id * 50))
                ).status is EOK
        packet = pack_lac(L1, 40, DIGEST)
        await ask(bookie, WriteLacRequest(L1, 40, KEY, packet))
        await ask(bookie, fence(L1))
        await bookie.checkpoint()
        await ask(bookie, add(L2, 3, b"again"))  # of an entry added again the last counts
        await bookie.close()

    run(story)
    assert len(list(directory.glob(LOGS))) > 2
    return directory


@pytest.fixture
def directory(written: Path, tmp_path: Path) -> Path:
    shutil.copytree(written, tmp_path / "bookie")
    return tmp_path / "bookie"


def rebuild(directory: Path, files: SystemFiles | None = None, **how: object) -> Report:
    return rebuild_indexes(small_config(directory), files or SystemFiles(), **how)  # type: ignore[arg-type]


def payload(ledger_id: LedgerId, entry_id: int) -> bytes:
    return b"again" if (ledger_id, entry_id) == (L2, 3) else b"%d" % entry_id * 50


async def check_entries(
    directory: Path, missing: StatusCode | None = None
) -> dict[str, StatusCode]:
    """Look for every entry; return the status of some requests."""
    bookie = await open_small(directory)
    for ledger_id in (L1, L2):
        for entry_id in range(ENTRIES):
            answer = await ask(bookie, read(ledger_id, entry_id))
            if answer.status is EOK:
                assert answer.body == entry_body(ledger_id, entry_id, payload(ledger_id, entry_id))
            else:
                assert answer.status is missing, (ledger_id, entry_id)
    behind = await ask(bookie, read(L1, ENTRIES))
    writes = {
        "behind": behind.status,
        "L1": (await ask(bookie, add(L1, ENTRIES))).status,
        "L2": (await ask(bookie, add(L2, ENTRIES))).status,
        "L2 by another": (await ask(bookie, add(L2, ENTRIES, key=OTHER_KEY))).status,
    }
    await bookie.close()
    return writes


WELL = {
    "behind": StatusCode.ENOENTRY,
    "L1": StatusCode.EFENCED,
    "L2": EOK,
    "L2 by another": StatusCode.EUA,
}


def test_what_is_well_is_left_alone(directory: Path) -> None:
    before = {path: path.read_bytes() for path in directory.rglob("*.idx")}
    assert rebuild(directory) == Report([], [], [])
    assert {path: path.read_bytes() for path in directory.rglob("*.idx")} == before


def test_damaged_locations_are_found_again(directory: Path) -> None:
    for ledger_id in (1, 2):
        change(directory / index(ledger_id), 1024, bytes(512))
    planned = rebuild(directory, dry_run=True)
    assert not list(directory.rglob("*.new"))
    report = rebuild(directory)
    assert report == planned
    assert [
        (one.ledger_id, one.entries, one.fenced, one.key, one.is_whole) for one in report.ledgers
    ] == [
        (L1, ENTRIES, True, "index", True),
        (L2, ENTRIES, False, "index", True),
    ]
    assert not list(directory.rglob("*.new"))
    assert run(lambda: check_entries(directory)) == WELL


@pytest.mark.parametrize("what", ["header", "file", "both files", "zeroed"])
def test_a_ledger_whose_header_is_lost_is_fenced(directory: Path, what: str) -> None:
    for ledger_id in (1, 2):
        path = directory / index(ledger_id)
        if what == "header":
            flip(path, 35)
        elif what == "zeroed":
            change(path, 0, bytes(1024))
        else:
            path.unlink()
        if what == "both files":
            path.with_suffix(".sums").unlink()
    report = rebuild(directory)
    assert [(one.entries, one.fenced, one.key) for one in report.ledgers] == [
        (ENTRIES, True, "journal")
    ] * 2
    assert run(lambda: check_entries(directory)) == WELL | {
        "L2": StatusCode.EFENCED,
        "L2 by another": StatusCode.EUA,
    }

    async def story() -> None:
        bookie = await open_small(directory)
        assert (await ask(bookie, ReadLacRequest(L1))).lac_body == pack_lac(L1, 40, DIGEST)
        assert (await ask(bookie, add(L2, 500, recovery=True))).status is EOK
        await bookie.close()

    run(story)


def test_a_key_that_no_journal_has_is_that_of_the_password(directory: Path) -> None:
    flip(directory / index(2), 35)
    for path in (directory / "journal/current").glob("*.txn"):
        image = path.read_bytes()
        path.write_bytes(image[:512])
    shutil.copytree(directory, directory.with_name("without"))
    (only,) = rebuild(directory, master_key=KEY).ledgers
    assert only.key == "password"
    (only,) = rebuild(directory.with_name("without")).ledgers
    assert only.key == "none"


def test_only_the_ledgers_that_are_named(directory: Path) -> None:
    change(directory / index(1), 1024, bytes(512))
    report = rebuild(directory, ledger_ids=[L2])
    assert [one.ledger_id for one in report.ledgers] == [L2]
    assert run(lambda: check_entries(directory, missing=EIO)) == WELL


def test_damaged_logs_and_indexes_together_deny_nothing(directory: Path) -> None:
    """The entries of a broken group are nowhere: their ledgers cannot say "not here" any more."""
    change(directory / index(1), 1024, bytes(512))
    flip(sorted(directory.glob(LOGS))[0], 1024 + 2)
    report = rebuild(directory)
    (one,) = report.ledgers
    assert not one.is_whole
    assert one.entries == ENTRIES - 1
    (damage,) = report.damaged_logs
    assert "0.log" in damage
    assert run(lambda: check_entries(directory, missing=EIO)) == WELL | {"behind": EIO}


def test_a_damaged_mark_lets_everything_be_replayed(directory: Path) -> None:
    for name in ("lastMark", "entryLogMark"):
        flip(directory / "ledgers/current" / name, 12)
    with pytest.raises(CorruptData):
        run(lambda: check_entries(directory))
    report = rebuild(directory)
    assert len(report.marks) == 2
    assert run(lambda: check_entries(directory)) == WELL


def test_files_of_java_are_read_too(tmp_path: Path) -> None:
    current = tmp_path / "ledgers/current"
    current.mkdir(parents=True)
    body = entry_body(L1, 0, b"by Java")
    header = entry_log_format.pack_header(entry_log_format.LogHeader())
    (current / "0.log").write_bytes(header + len(body).to_bytes(4, "big") + body)
    (current / "0/1").mkdir(parents=True)
    (current / "0/1/1.idx").write_bytes(pack_header(IndexHeader(KEY)).ljust(1024 + 8192, b"\0"))
    (one,) = rebuild(tmp_path, ledger_ids=[L1]).ledgers
    assert (one.entries, one.fenced, one.key) == (1, False, "index")


def test_a_running_bookie_is_left_alone(directory: Path) -> None:
    async def story() -> None:
        bookie = await open_small(directory)
        with pytest.raises(LockHeld):
            rebuild(directory)
        await bookie.close()

    run(story)


def test_what_was_never_checkpointed_is_left_to_the_replay(tmp_path: Path) -> None:
    async def story() -> None:
        live, dead = tmp_path / "live", tmp_path / "dead"
        bookie = await open_small(live)
        await ask(bookie, add(L1, 0))
        await bookie.checkpoint()
        await ask(bookie, add(L2, 0))
        shutil.copytree(live, dead)
        await bookie.close()
        assert rebuild(dead).ledgers == []
        bookie = await open_small(dead)
        assert (await ask(bookie, add(L2, 1))).status is EOK  # not fenced for nothing
        await bookie.close()

    run(story)


def test_a_crash_at_any_step_leaves_the_old_index_or_the_new_one(
    written: Path, tmp_path: Path
) -> None:
    """kill -9: nothing is denied by what it leaves, and doing it again finishes the work."""
    steps = None
    step = 0
    while steps is None or step < steps:
        directory = tmp_path / f"{step}"
        shutil.copytree(written, directory)
        change(directory / index(1), 1024, bytes(512))
        flip(directory / index(2), 35)
        files = CrashFiles(stop_at=step)
        try:
            rebuild(directory, files)
            steps = len(files.steps)
        except Crashed:
            pass
        run(lambda: check_entries(directory, missing=EIO))  # noqa: B023 - it is run at once
        rebuild(directory)
        expected = WELL | {"L2": StatusCode.EFENCED}
        assert run(lambda: check_entries(directory)) == expected  # noqa: B023
        shutil.rmtree(directory)
        step += 3
    assert step > 10
