"""Bookies die under a log: its segment goes on, and readers of any process find everything."""

from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from tailrace.core.errors import AddEntryQuorumTimeout
from tailrace.core.ledger.bookie_registry import LocalBookies
from tailrace.core.ledger.client import LedgerClient
from tailrace.core.ledger.config import LedgerClientConfig, ReadConfig
from tailrace.core.log.config import LogConfig
from tailrace.core.log.namespace import LogNamespace
from tailrace.protocol.bookkeeper.messages import AddRequest, StatusCode
from tailrace.protocol.distributedlog.dlsn import INITIAL
from tailrace.protocol.ids import BookieId
from tests.unit.core.ledger.fake_bookie import DOWN, Fault, no_fault
from tests.unit.core.log.world import Listener, World, put, run_world, settle, txids_of, write

REPLICATED = LogConfig(control_flush_ms=0, ensemble_size=3, write_quorum=3, ack_quorum=2)


async def ensembles(world: World) -> list[tuple[BookieId, ...]]:
    """The ensembles of the one ledger of the one segment, in order."""
    log = await world.log()
    await log.refresh()
    (segment,) = log.segments
    metadata = await world.ledgers().ledger_metadata(segment.ledger_id)
    return [fragment.ensemble for fragment in metadata.fragments]


def test_segment_outlives_all_its_first_bookies(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        listener = Listener()
        namespace = world.namespace()
        await namespace.create_log("s")
        log = await namespace.open_log("s")
        writer = await log.open_writer(listener)
        tail = await log.open_reader(INITIAL)
        elsewhere = await world.log()
        other = await elsewhere.open_reader(INITIAL)
        await write(writer, 0, 1)
        (first,) = await ensembles(world)
        seen: list[int] = []
        for round_, victim in enumerate(first, 1):
            next(b for b in world.bookies if b.bookie_id == victim).fault = DOWN
            await write(writer, 10 * round_, 10 * round_ + 1)
            await settle()
            seen += [record.txid for _, record in await tail.read(1 << 20)]
        expected = [0, 1, 10, 11, 20, 21, 30, 31]
        while batch := await tail.read(1 << 20):
            seen += [record.txid for _, record in batch]
        assert seen == expected
        assert listener.errors == []
        last = (await ensembles(world))[-1]
        assert set(last).isdisjoint(first)
        for bookie in world.bookies:
            bookie.fault = no_fault  # each entry has two copies for sure; three bookies were gone
        await writer.close()
        assert await txids_of(await world.log()) == expected
        found = []
        while batch := await other.read(1 << 20):
            found += [record.txid for _, record in batch]
        assert found == expected
        assert set((await ensembles(world))[0]) == set(first)  # and it is still one segment

    run_world(tmp_path, story, bookies=6, config=REPLICATED)


def test_owner_that_died_after_a_change_leaves_all_to_the_next(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        writer = await (await world.log()).open_writer(Listener())
        await write(writer, 0, 1)
        (first,) = await ensembles(world)
        victim = next(b for b in world.bookies if b.bookie_id == first[0])
        victim.fault = lambda r: DOWN(r) if isinstance(r, AddRequest) else None
        await write(writer, 2, 3)
        await world.restart_store()
        victim.fault = DOWN
        next_writer = await (await world.log()).open_writer(Listener())
        await write(next_writer, 4)
        await next_writer.close()
        assert await txids_of(await world.log()) == [0, 1, 2, 3, 4]

    run_world(tmp_path, story, bookies=4, config=REPLICATED)


def test_log_may_take_fewer_bookies_and_give_up_in_time(tmp_path: Path) -> None:
    config = replace(
        REPLICATED, write_quorum=2, opportunistic_striping=True, add_quorum_timeout_ms=50
    )

    async def story(world: World) -> None:
        listener = Listener()
        log = await world.log()
        writer = await log.open_writer(listener)
        await write(writer, 0)
        assert [len(ensemble) for ensemble in await ensembles(world)] == [2]
        world.bookie.hold()
        put(writer, 1)
        with pytest.raises(AddEntryQuorumTimeout):
            await writer.flush()
        assert [type(error) for error in listener.errors] == [AddEntryQuorumTimeout]
        world.bookie.release()
        assert (await txids_of(await world.log()))[0] == 0

    run_world(tmp_path, story, bookies=2, config=config)


def test_readers_ask_another_replica_when_one_is_silent(tmp_path: Path) -> None:
    """Speculative reads are the ledger client's; read-ahead, tail and search of a log use them."""

    async def story(world: World) -> None:
        log = await world.log(control_flush_ms=1)
        writer = await log.open_writer(Listener())
        for txid in range(30):
            await write(writer, txid)
        await writer.roll()
        await write(writer, 30)
        quick = ReadConfig(speculative_timeout_ms=1, long_poll_speculative_timeout_ms=1)
        ledgers = LedgerClient(
            world.store, LocalBookies(world.bookies), LedgerClientConfig(read=quick), Random(7)
        )
        config = replace(REPLICATED, client_id="other", lac_poll_ms=20)
        other = await LogNamespace(world.store, ledgers, config, world.clock).open_log("s")
        at = await other.locate(25)
        assert at is not None
        for silent in world.bookies:
            silent.hold()
            assert (await txids_of(other))[:30] == list(range(30))
            assert await other.locate(25) == at
            silent.release()
        assert ledgers.metrics.speculative_reads_total > 0
        await writer.close()
        await other.close()

    run_world(tmp_path, story, bookies=3, config=REPLICATED)


@pytest.mark.parametrize("lost", [2, 3])
@pytest.mark.parametrize(
    "fault",
    [DOWN, lambda _: StatusCode.EUA, lambda _: StatusCode.EBADREQ],
    ids=["gone", "another ledger's", "no bookie of ours"],
)
def test_a_log_whose_bookies_are_lost_can_be_deleted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, fault: Fault, lost: int
) -> None:
    async def story(world: World) -> None:
        namespace = world.namespace()
        await namespace.create_log("s")
        writer = await (await namespace.open_log("s")).open_writer(Listener())
        await write(writer, 0, 1)
        (ensemble,) = await ensembles(world)
        await writer.abort()
        for bookie in world.bookies:
            if bookie.bookie_id in ensemble[:lost]:
                bookie.fault = fault
        await world.namespace().delete_log("s")
        assert await world.ledger_ids() == set()
        (told,) = [each for each in caplog.messages if each.startswith("ledger_deleted_unfenced")]
        assert "log=s ledger=" in told

    run_world(tmp_path, story, bookies=6, config=REPLICATED)
