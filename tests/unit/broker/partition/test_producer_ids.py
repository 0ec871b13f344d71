"""Producer ids: never twice, whoever asks and whoever dies."""

import asyncio
from pathlib import Path

import pytest

from tailrace.broker.cluster.paths import ClusterPaths
from tailrace.broker.partition.producer_ids import BLOCK, ProducerIds
from tailrace.core.errors import CorruptData
from tailrace.core.metadata.sqlite import SqliteStore
from tailrace.core.runtime.clock import ManualClock
from tests.unit.broker.loops import in_loop


@in_loop
async def test_ids_are_unique_over_brokers_and_restarts(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "m.db", ManualClock())
    taken: list[int] = []

    async def take(ids: ProducerIds, count: int) -> None:
        taken.extend([await ids.take() for _ in range(count)])

    one, other = ProducerIds(store), ProducerIds(store)
    async with asyncio.TaskGroup() as group:
        for ids in (one, other, one):
            group.create_task(take(ids, 700))
    await store.close()
    store = SqliteStore(tmp_path / "m.db", ManualClock())
    await take(ProducerIds(store), 5)  # the rest of the old blocks died with their owners
    assert len(set(taken)) == len(taken) == 2105
    assert taken[-1] % BLOCK == 4
    await store.close()


@in_loop
async def test_a_node_that_does_not_decode_is_an_error(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "m.db", ManualClock())
    await store.create(ClusterPaths().producer_ids, b"{}x", parents=True)
    with pytest.raises(CorruptData):
        await ProducerIds(store).take()
    await store.close()
