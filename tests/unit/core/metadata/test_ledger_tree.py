import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from tailrace.core.errors import CorruptData, NoNode
from tailrace.core.metadata.layout import LAYOUT_TEXT, LedgerPaths
from tailrace.core.metadata.ledger_tree import all_ledgers, initialize_layout, ledger_ranges
from tailrace.core.metadata.sqlite import SqliteStore
from tailrace.core.metadata.store import MetadataStore
from tailrace.core.runtime.clock import ManualClock
from tailrace.protocol.ids import LedgerId
from tests.unit.core.metadata.golden_nodes import golden_nodes


def run(path: Path, story: Callable[[MetadataStore], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        store = SqliteStore(path / "m", ManualClock())
        await story(store)
        await store.close()

    asyncio.run(main(), debug=True)


@pytest.mark.parametrize("root", ["/ledgers", "/deeper/down/ledgers"])
def test_layout_is_made_once(tmp_path: Path, root: str) -> None:
    async def story(store: MetadataStore) -> None:
        assert await initialize_layout(store, root, instance_id="first") == "first"
        assert await initialize_layout(store, root, instance_id="second") == "first"
        made = await store.children(root)
        assert made == ["INSTANCEID", "LAYOUT", "available", "cookies", "idgen"]
        assert await store.children(f"{root}/available") == ["readonly"]
        assert (await store.get(f"{root}/LAYOUT")).data == LAYOUT_TEXT

    run(tmp_path, story)


def test_layout_text_is_javas() -> None:
    assert golden_nodes()["/ledgers/LAYOUT"].data == LAYOUT_TEXT


def test_instance_id_is_a_uuid(tmp_path: Path) -> None:
    async def story(store: MetadataStore) -> None:
        instance_id = await initialize_layout(store)
        assert len(instance_id) == len(golden_nodes()["/ledgers/INSTANCEID"].data) == 36

    run(tmp_path, story)


def test_racing_processes_agree(tmp_path: Path) -> None:
    async def story(store: MetadataStore) -> None:
        async with asyncio.TaskGroup() as group:
            tries = [group.create_task(initialize_layout(store)) for _ in range(5)]
        assert len({task.result() for task in tries}) == 1

    run(tmp_path, story)


def test_other_layout_is_refused(tmp_path: Path) -> None:
    async def story(store: MetadataStore) -> None:
        await store.create("/ledgers/LAYOUT", b"2\nother.FlatLedgerManager:1", parents=True)
        with pytest.raises(CorruptData):
            await initialize_layout(store)

    run(tmp_path, story)


def test_all_ledgers_are_found_in_order(tmp_path: Path) -> None:
    async def story(store: MetadataStore) -> None:
        await initialize_layout(store)
        paths = LedgerPaths()
        ids = [0, 1, 9999, 10000, 123456789, 2**31 - 2, 2**31 - 1, 2**40, 2**63 - 1]
        for ledger_id in reversed(ids):
            await store.create(paths.ledger(LedgerId(ledger_id)), parents=True)
        await store.create("/ledgers/00/0000/other")
        await store.create("/ledgers/00/0007", parents=True)
        ranges = [found async for found in ledger_ranges(store)]
        assert [ledger_id for found in ranges for ledger_id in found] == ids
        assert ranges[0] == [0, 1, 9999]

    run(tmp_path, story)


def test_ledgers_of_another_cluster_are_not_taken_for_all(tmp_path: Path) -> None:
    async def story(store: MetadataStore) -> None:
        await initialize_layout(store, instance_id="ours")
        await store.create(LedgerPaths().ledger(LedgerId(7)), parents=True)
        assert await all_ledgers(store, "/ledgers", "ours") == {7}
        with pytest.raises(CorruptData, match="another cluster"):
            await all_ledgers(store, "/ledgers", "former")
        await store.delete("/ledgers/INSTANCEID")
        with pytest.raises(NoNode):
            await all_ledgers(store, "/ledgers", "ours")

    run(tmp_path, story)
