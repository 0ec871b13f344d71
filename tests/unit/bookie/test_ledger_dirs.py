from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.bookie.ledger_dirs import LedgerDirs
from tailrace.core.runtime.files import SystemFiles
from tailrace.protocol.bookkeeper.messages import StatusCode
from tailrace.protocol.ids import LedgerId
from tests.unit.bookie.world import add, ask, entry_body, open_small, read, run

PATHS = [Path("/a"), Path("/b"), Path("/c")]


def test_new_logs_go_to_the_writable_directories_in_turn() -> None:
    dirs = LedgerDirs(SystemFiles(), PATHS)
    assert [dirs.for_new_log(i).parent.parent.name for i in range(4)] == ["a", "b", "c", "a"]
    dirs.mark_full(PATHS[1])
    assert dirs.writable() == (PATHS[0], PATHS[2])
    assert [dirs.for_new_log(i).parent.parent.name for i in range(4)] == ["a", "c", "a", "c"]
    dirs.mark_full(PATHS[0])
    dirs.mark_full(PATHS[2])
    assert dirs.writable() == ()
    assert dirs.for_new_log(0x1F) == Path("/b/current/1f.log")
    dirs.mark_writable(PATHS[2])
    assert dirs.for_new_log(5) == Path("/c/current/5.log")


@given(st.integers(0, 2**63 - 1), st.sets(st.sampled_from(PATHS)))
def test_a_new_index_file_avoids_full_directories(ledger_id: int, full: set[Path]) -> None:
    dirs = LedgerDirs(SystemFiles(), PATHS)
    for path in full:
        dirs.mark_full(path)
    chosen = dirs.for_new_index(ledger_id)
    assert chosen.parent not in full or len(full) == 3
    if not full:
        assert chosen == PATHS[ledger_id % 3] / "current"


def test_a_log_that_nobody_has_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"entry log 7\.log is in none of"):
        LedgerDirs(SystemFiles(), [tmp_path]).open_log(7)


def test_entries_in_all_directories_are_found_again(tmp_path: Path) -> None:
    """Also with a directory that fills up in between, and with one more after a restart."""
    paths = [tmp_path / "ledgers", tmp_path / "more", tmp_path / "late"]

    async def story() -> None:
        bodies = {}
        for use in (paths[:2], paths[:2], paths):
            bookie = await open_small(
                tmp_path, ledger_directories=tuple(use), log_size_limit=6000, preallocate_mb=0
            )
            dirs = bookie._storage.dirs
            for number in range(12):
                ledger_id, entry_id = LedgerId(number % 4), len(bodies)
                if number == 6:
                    dirs.mark_full(paths[0])
                assert (await ask(bookie, add(ledger_id, entry_id, bytes(2000)))).status == 0
                bodies[ledger_id, entry_id] = entry_body(ledger_id, entry_id, bytes(2000))
            for (ledger_id, entry_id), body in bodies.items():
                assert (await ask(bookie, read(ledger_id, entry_id))).body == body
            await bookie.close()
            make_late(paths[2])

    run(story)
    names = [path.name for path in tmp_path.glob("*/current/*.log")]
    assert len(set(names)) == len(names)
    assert all(list(path.glob("current/*.log")) for path in paths)


def make_late(path: Path) -> None:
    """Add a directory to a bookie as an operator does: with its cookie."""
    (path / "current").mkdir(parents=True, exist_ok=True)
    cookie = path.parent / "ledgers/current/VERSION"
    (path / "current/VERSION").write_bytes(cookie.read_bytes())


def test_everything_is_full_and_still_read(tmp_path: Path) -> None:
    paths = (tmp_path / "ledgers", tmp_path / "more")

    async def story() -> None:
        bookie = await open_small(tmp_path, ledger_directories=paths)
        await ask(bookie, add(LedgerId(1), 0))
        for path in paths:
            bookie._storage.dirs.mark_full(path)
        await bookie.checkpoint()
        assert (await ask(bookie, read(LedgerId(1), 0))).status is StatusCode.EOK
        assert (await ask(bookie, add(LedgerId(2), 0))).status is StatusCode.EOK
        await bookie.close()

    run(story)
