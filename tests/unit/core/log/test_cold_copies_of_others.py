"""A copy in cold storage counts for the ledger that it is of, not for whatever the segment has."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tailrace.core.errors import MetadataConflict
from tailrace.core.ledger.config import LedgerConfig
from tailrace.core.log.cold.nodes import decode_cold, encode_cold
from tailrace.core.log.log import Log
from tailrace.core.metadata.segment_metadata import decode_segment, encode_segment, segment_name
from tests.unit.core.ledger.world import Listener as LedgerListener
from tests.unit.core.log.faulty_store import FaultyStore
from tests.unit.core.log.test_cold_log import PATHS, objects, on_bookies, release_all, run_cold
from tests.unit.core.log.test_trimmer import DELAY_MS, with_segments
from tests.unit.core.log.world import World, txids_of


async def swap_ledger(world: World, log: Log, lssn: int) -> None:
    """Give a segment another ledger with the same entries, as who knows nothing of copies does."""
    segment = log.segments.find(lssn)
    assert segment is not None
    old = await world.ledgers().open_ledger(segment.ledger_id, recover=False)
    writer = await world.ledgers().create_ledger(LedgerConfig(), LedgerListener())
    for entry in await old.read(0, old.last_confirmed):
        writer.add([entry.payload])
    await writer.close()
    path = PATHS.segment(segment_name(segment))
    now = decode_segment((await world.store.get(path)).data)
    await world.store.set(path, encode_segment(replace(now, ledger_id=writer.ledger_id)))


def test_a_segment_stays_on_the_bookies_until_its_own_ledger_is_copied(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await with_segments(world, 3)
        await log.upkeep.copy_to_cold()
        await swap_ledger(world, log, 1)
        again = await world.log(client_id="other")
        tiers = [(each.on_bookies, each.in_cold) for each in await again.upkeep.trimmer.tiers()]
        assert tiers == [(True, False), (True, True), (True, True)]
        await again.upkeep.trimmer.release(99)
        assert await on_bookies(world) == [1, 2, 3], "its ledger would be lost"
        assert await again.upkeep.copy_to_cold() == [1]
        await release_all(world, again)
        world.clock.advance_ms(DELAY_MS)
        await again.upkeep.trimmer.collect()
        assert await on_bookies(world) == [3]
        assert len(objects(tmp_path)) == 3, "the copy of the former ledger is gone"
        assert await txids_of(await world.log(client_id="reader")) == list(range(30))

    run_cold(tmp_path, story)


@pytest.mark.parametrize("change", [{"name": "x/000000000000000001-7-00000000.cold"}, {}])
def test_a_restore_takes_no_other_copy_for_the_one_that_it_read(
    tmp_path: Path, change: dict[str, Any]
) -> None:
    """Restored, purged, or copied anew while it was read."""

    async def story(world: World) -> None:
        log = await with_segments(world, 3)
        await release_all(world, log)
        path = PATHS.cold_segment(2)
        before = await world.store.get(path)
        store = FaultyStore(world.store)
        restorer = await world.namespace(store, client_id="restorer").open_log("s")

        async def meanwhile(_number: int) -> None:
            if (await world.store.get(path)).version == before.version:
                cold = decode_cold(before.data, path)
                if not change:
                    cold = cold.with_metadata(replace(cold.metadata, ledger_id=99))
                    await world.store.set(path, encode_cold(cold))
                else:
                    fields = {name: getattr(cold, name) for name in cold.__struct_fields__}
                    await world.store.set(path, encode_cold(type(cold)(**fields | change)))

        store.before = meanwhile
        with pytest.raises(MetadataConflict, match="another copy by now"):
            await restorer.upkeep.restore(2)
        assert await on_bookies(world) == [3]

    run_cold(tmp_path, story)
