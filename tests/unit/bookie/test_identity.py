"""Lists of directories that change: what a bookie promised must not be denied for want of one."""

from pathlib import Path

import pytest

from tailrace.bookie.app import open_bookie
from tailrace.bookie.cookie import parse_cookie
from tailrace.bookie.errors import InvalidCookie
from tailrace.core.metadata.layout import LedgerPaths
from tailrace.core.metadata.sqlite import SqliteStore
from tailrace.core.runtime.clock import ManualClock
from tailrace.core.runtime.files import SystemFiles
from tailrace.protocol.bookkeeper.messages import StatusCode
from tailrace.protocol.ids import BookieId, LedgerId
from tests.unit.bookie.world import add, ask, open_small, read, run, small_config

EOK = StatusCode.EOK


def paths_of(directory: Path, *names: str) -> tuple[Path, ...]:
    return tuple(directory / name for name in names)


def copy_cookie(source: Path, target: Path) -> None:
    (target / "current").mkdir(parents=True)
    (target / "current/VERSION").write_bytes((source / "current/VERSION").read_bytes())


@pytest.mark.parametrize("journal_write_data", [False, True])
def test_a_ledger_directory_that_the_list_forgot_is_missed(
    tmp_path: Path, journal_write_data: bool
) -> None:
    both = paths_of(tmp_path, "ledgers", "more")

    async def story() -> None:
        changes = {"journal_write_data": journal_write_data}
        bookie = await open_small(tmp_path, ledger_directories=both, **changes)
        for number in (1, 2):
            assert (await ask(bookie, add(LedgerId(number), 0))).status is EOK
        await bookie.close()
        with pytest.raises(InvalidCookie, match="2 ledgerDirectories"):
            await open_small(tmp_path, ledger_directories=both[:1], **changes)
        bookie = await open_small(tmp_path, ledger_directories=both, **changes)
        for number in (1, 2):
            assert (await ask(bookie, read(LedgerId(number), 0))).status is EOK
        await bookie.close()

    run(story)


def test_a_directory_that_was_added_is_missed_too(tmp_path: Path) -> None:
    first, second = paths_of(tmp_path, "ledgers", "more")

    async def story() -> None:
        await (await open_small(tmp_path, ledger_directories=(first,))).close()
        copy_cookie(first, second)
        await (await open_small(tmp_path, ledger_directories=(first, second))).close()
        for path in (first, second):
            found = parse_cookie((path / "current/VERSION").read_bytes())
            assert found.ledger_directories == (str(first), str(second))
        with pytest.raises(InvalidCookie, match="2 ledgerDirectories"):
            await open_small(tmp_path, ledger_directories=(first,))

    run(story)


def test_the_metadata_knows_how_many_directories_there_are(tmp_path: Path) -> None:
    first, second = paths_of(tmp_path, "ledgers", "more")

    async def story() -> None:
        paths = LedgerPaths()
        store = SqliteStore(tmp_path / "metadata.sqlite", ManualClock())
        await store.create(paths.instance_id, b"i", parents=True)
        for directories in ((first,), (first, second)):
            config = small_config(tmp_path, ledger_directories=directories)
            await (await open_bookie(config, store, ManualClock(), SystemFiles())).close()
            if directories == (first,):
                copy_cookie(first, second)
        node = await store.get(paths.cookie(BookieId("test:3181")))
        assert parse_cookie(node.data).ledger_directories == (str(first), str(second))
        await store.close()

    run(story)


def test_directories_may_be_moved(tmp_path: Path) -> None:
    first, second, moved = paths_of(tmp_path, "ledgers", "more", "moved")

    async def story() -> None:
        bookie = await open_small(tmp_path, ledger_directories=(first, second))
        for number in (1, 2):
            await ask(bookie, add(LedgerId(number), 0))
        await bookie.close()
        second.rename(moved)
        bookie = await open_small(tmp_path, ledger_directories=(first, moved))
        for number in (1, 2):
            assert (await ask(bookie, read(LedgerId(number), 0))).status is EOK
        await bookie.close()

    run(story)
