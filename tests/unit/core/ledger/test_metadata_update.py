import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tailrace.core.errors import CorruptData, LedgerNotFound, MetadataConflict
from tailrace.core.ledger.metadata_update import LedgerNodes, StoredLedger
from tailrace.core.metadata.layout import LedgerPaths
from tailrace.core.metadata.ledger_metadata import Fragment, LedgerMetadata, encode_ledger
from tailrace.core.metadata.sqlite import SqliteStore
from tailrace.core.runtime.clock import ManualClock
from tailrace.protocol.ids import BookieId, LedgerId

L0 = LedgerId(0)
METADATA = LedgerMetadata(
    ensemble_size=1, write_quorum=1, ack_quorum=1, fragments=(Fragment(0, (BookieId("b"),)),)
)


def run(
    path: Path, story: Callable[[LedgerNodes, StoredLedger], Coroutine[Any, Any, None]]
) -> None:
    async def main() -> None:
        store = SqliteStore(path / "m", ManualClock())
        paths = LedgerPaths()
        await store.create(paths.ledger(L0), encode_ledger(METADATA), parents=True)
        nodes = LedgerNodes(store, paths, attempts=3)
        await story(nodes, await nodes.read(L0))
        await store.close()

    asyncio.run(main(), debug=True)


def add_custom(key: str) -> Callable[[LedgerMetadata], LedgerMetadata]:
    return lambda current: replace(current, custom={**current.custom, key: b""})


def test_update_is_written_and_returned(tmp_path: Path) -> None:
    async def story(nodes: LedgerNodes, known: StoredLedger) -> None:
        assert known == (L0, METADATA, 0)
        updated = await nodes.update(known, add_custom("a"))
        assert updated.version == 1
        assert await nodes.read(L0) == updated

    run(tmp_path, story)


def test_nothing_to_do_writes_nothing(tmp_path: Path) -> None:
    async def story(nodes: LedgerNodes, known: StoredLedger) -> None:
        assert await nodes.update(known, lambda current: None) is known
        assert (await nodes.read(L0)).version == 0

    run(tmp_path, story)


def test_lost_race_decides_again_on_what_is_there(tmp_path: Path) -> None:
    async def story(nodes: LedgerNodes, known: StoredLedger) -> None:
        await nodes.update(known, add_custom("a"))
        updated = await nodes.update(known, add_custom("b"))
        assert set(updated.metadata.custom) == {"a", "b"}

    run(tmp_path, story)


def test_two_updaters_both_win(tmp_path: Path) -> None:
    async def story(nodes: LedgerNodes, known: StoredLedger) -> None:
        async with asyncio.TaskGroup() as group:
            for key in "abc":
                group.create_task(nodes.update(known, add_custom(key)))
        assert set((await nodes.read(L0)).metadata.custom) == {"a", "b", "c"}

    run(tmp_path, story)


def test_endless_races_end(tmp_path: Path) -> None:
    async def story(nodes: LedgerNodes, known: StoredLedger) -> None:
        stale = known._replace(version=99)
        nodes.read = lambda ledger_id: _return(stale)  # type: ignore[method-assign]
        with pytest.raises(MetadataConflict, match="lost 3 races"):
            await nodes.update(stale, add_custom("a"))

    run(tmp_path, story)


async def _return(stored: StoredLedger) -> StoredLedger:
    return stored


def test_errors_of_the_decision_go_through(tmp_path: Path) -> None:
    async def story(nodes: LedgerNodes, known: StoredLedger) -> None:
        def refuse(current: LedgerMetadata) -> LedgerMetadata:
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await nodes.update(known, refuse)

    run(tmp_path, story)


def test_missing_and_broken_ledgers(tmp_path: Path) -> None:
    async def story(nodes: LedgerNodes, known: StoredLedger) -> None:
        with pytest.raises(LedgerNotFound):
            await nodes.read(LedgerId(5))
        with pytest.raises(LedgerNotFound):
            await nodes.update(known._replace(ledger_id=LedgerId(5)), add_custom("a"))
        await nodes.store.set(nodes.paths.ledger(L0), b"broken")
        with pytest.raises(CorruptData):
            await nodes.read(L0)

    run(tmp_path, story)
