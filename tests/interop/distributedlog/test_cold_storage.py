"""Segments of Java go to cold storage: Java sees a log that begins later, we see all of it."""

from pathlib import Path

import pytest

from tests.interop.bookkeeper.ours import run
from tests.interop.distributedlog.conftest import Opener
from tests.interop.distributedlog.ours import Listener, Place, our_logs, put, read
from tests.interop.distributedlog.test_truncation import COUNT, write_three_segments
from tests.unit.core.log.cold.ledgers import cold_store

pytestmark = [pytest.mark.interop, pytest.mark.java]
SEED = 41


def test_java_and_cold_storage(place: Place, opener: Opener, name: str, tmp_path: Path) -> None:
    async def story() -> None:
        java = opener(name)
        await write_three_segments(java, SEED)
        before = await java.read(3 * COUNT)
        async with (
            cold_store(tmp_path / "cold") as cold,
            our_logs(place, delete_delay_ms=0) as logs,
        ):
            logs.use_cold_storage(cold)
            log = await logs.open_log(name)
            assert await log.upkeep.copy_to_cold() == [1, 2, 3]
            assert [s.lssn for s in await log.upkeep.trimmer.release(99)] == [1, 2]
            assert [segment["lssn"] for segment in await java.segments()] == [3]
            assert await java.read(COUNT) == before[2 * COUNT :]
            assert await read(log, 3 * COUNT) == before

            theirs = await java.open_writer()
            await theirs.write(SEED, 3 * COUNT + 1, COUNT)
            await theirs.close()
            writer = await log.open_writer(Listener())
            await put(writer, SEED, 4 * COUNT + 1, COUNT)
            await writer.close()
            after = await read(log, 5 * COUNT)
            assert [record.txid for record in after] == list(range(1, 5 * COUNT + 1))
            assert await java.read(3 * COUNT) == after[2 * COUNT :]

            assert await log.upkeep.restore(1) == [2, 1]
            assert [segment["lssn"] for segment in await java.segments()] == [1, 2, 3, 4, 5]
            assert await java.read(5 * COUNT) == after

    run(story)
