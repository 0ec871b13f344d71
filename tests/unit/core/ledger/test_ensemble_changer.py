"""Failed bookies are replaced while adds go on: a story per rule, and bugs of others by number."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest

from tailrace.core.errors import (
    BookieUnavailable,
    CoreError,
    LedgerClosed,
    LedgerFenced,
    MetadataConflict,
    NotEnoughBookies,
    Unavailable,
)
from tailrace.core.ledger.bookie_registry import LocalBookies
from tailrace.core.ledger.client import LedgerClient
from tailrace.core.ledger.config import LedgerConfig
from tailrace.core.ledger.ensemble_change import with_ensemble
from tailrace.core.ledger.ensembles import Ensembles
from tailrace.core.ledger.placement_config import PlacementConfig
from tailrace.core.ledger.writer import LedgerWriter
from tailrace.core.metadata.ledger_metadata import Fragment, LedgerMetadata, LedgerState
from tailrace.protocol.bookkeeper.messages import AddRequest, AddResponse, Request, StatusCode
from tests.unit.core.ledger.fake_bookie import DOWN, SILENT, FakeBookie, no_fault
from tests.unit.core.ledger.fast_world import FastWorld, read_all, run_fast
from tests.unit.core.ledger.memory_store import no_outage
from tests.unit.core.ledger.world import REPLICATED, SINGLE, STRIPED, Listener, settle

READ_ONLY: Callable[[Request], StatusCode | None] = lambda request: (  # noqa: E731 - a constant
    StatusCode.EREADONLY if isinstance(request, AddRequest) else None
)


async def started(
    world: FastWorld, config: LedgerConfig = REPLICATED, confirmed: int = 0
) -> tuple[LedgerWriter, Listener]:
    listener = Listener()
    writer = await world.client.create_ledger(config, listener)
    for i in range(confirmed):
        writer.add((b"%d" % i,))
    await writer._adder.drained()
    await settle()
    return writer, listener


def added(bookie: FakeBookie) -> list[int]:
    return [r.entry_id for r in bookie.requests if isinstance(r, AddRequest)]


async def closed_and_read(world: FastWorld, writer: LedgerWriter) -> list[bytes]:
    await writer.close()
    world.check_confirmed(writer.ledger_id, writer.lac)
    return await read_all(world, writer.ledger_id)


@pytest.mark.parametrize("config", [REPLICATED, STRIPED, SINGLE], ids=["3/3/2", "3/2/2", "1/1/1"])
@pytest.mark.parametrize("fault", [DOWN, SILENT, READ_ONLY], ids=["down", "silent", "read-only"])
def test_failed_bookie_is_replaced_and_writes_go_on(config: LedgerConfig, fault: object) -> None:
    async def story(world: FastWorld) -> None:
        writer, listener = await started(world, config, confirmed=3)
        victim, *_ = world.ensemble(writer)
        victim.fault = fault  # type: ignore[assignment]
        for i in range(3, 9):
            writer.add((b"%d" % i,))
        await writer._adder.drained()
        first, second = writer.metadata.fragments
        assert (first.first_entry_id, second.first_entry_id) == (0, 3)
        assert victim.bookie_id not in second.ensemble
        assert [a == b for a, b in zip(first.ensemble, second.ensemble, strict=True)] == [
            False, *[True] * (config.ensemble_size - 1)
        ]  # fmt: skip
        assert world.client.metrics.ensemble_changes_total == 1
        victim.fault = no_fault
        assert await closed_and_read(world, writer) == [b"%d" % i for i in range(9)]
        assert listener.errors == []

    run_fast(story)


def test_one_change_for_a_burst_and_the_new_bookie_gets_all_that_waits() -> None:
    async def story(world: FastWorld) -> None:
        writer, listener = await started(world, confirmed=2)
        victim, second, third = world.ensemble(writer)
        for bookie in (second, third):
            bookie.hold()
        victim.fault = DOWN
        for i in range(2, 40):
            writer.add((b"%d" % i,))
        await settle()
        (new,) = set(map(id, world.ensemble(writer))) - set(map(id, (victim, second, third)))
        (newcomer,) = [b for b in world.bookies if id(b) == new]
        assert added(newcomer) == list(range(2, 40))
        assert listener.confirmed[-1] == 1
        third.release()
        assert listener.confirmed[-1] == 39
        second.release()
        assert world.client.metrics.ensemble_changes_total == 1
        assert await closed_and_read(world, writer) == [b"%d" % i for i in range(40)]

    run_fast(story)


def test_nothing_is_confirmed_and_nobody_new_is_asked_while_the_metadata_waits() -> None:
    """BookKeeper #1591: writes to a new ensemble that the metadata did not have yet were lost."""

    async def story(world: FastWorld) -> None:
        writer, _ = await started(world, confirmed=2)
        victim, _, _ = world.ensemble(writer)
        newcomers = world.others(writer)
        world.store.hold()
        victim.fault = DOWN
        writer.add((b"2",))  # confirmed by the two others before the failure is known to be one
        await settle()
        before = writer.lac
        for i in range(3, 6):
            writer.add((b"%d" % i,))
        await settle(200)
        assert world.store.waiting == 1
        assert writer.lac == before
        assert all(added(bookie) == [] for bookie in newcomers)
        assert len(world.stored(writer.ledger_id).fragments) == 1
        world.store.release()
        assert await closed_and_read(world, writer) == [b"%d" % i for i in range(6)]

    run_fast(story)


def test_failures_during_a_change_are_handled_after_it() -> None:
    async def story(world: FastWorld) -> None:
        writer, _ = await started(world, confirmed=1)
        first, second, _ = world.ensemble(writer)
        world.store.hold()
        first.fault = DOWN
        writer.add((b"1",))
        await settle()
        second.fault = DOWN
        writer.add((b"2",))
        await settle()
        assert world.store.waiting == 1
        world.store.release()
        assert await closed_and_read(world, writer) == [b"0", b"1", b"2"]
        fragments = writer.metadata.fragments
        assert {first.bookie_id, second.bookie_id}.isdisjoint(fragments[-1].ensemble)
        assert world.client.metrics.ensemble_changes_total == 2

    run_fast(story)


def test_two_that_fail_the_same_entry_are_replaced_together() -> None:
    async def story(world: FastWorld) -> None:
        writer, _ = await started(world, confirmed=1)
        first, second, _ = world.ensemble(writer)
        first.fault = second.fault = DOWN
        writer.add((b"1",))
        await writer._adder.drained()
        fragments = writer.metadata.fragments
        assert [f.first_entry_id for f in fragments] == [0, 1]
        assert {first.bookie_id, second.bookie_id}.isdisjoint(fragments[-1].ensemble)
        assert await closed_and_read(world, writer) == [b"0", b"1"]

    run_fast(story)


def test_fragment_without_an_entry_is_replaced_in_place() -> None:
    async def story(world: FastWorld) -> None:
        writer, _ = await started(world)
        victim, *_ = world.ensemble(writer)
        victim.fault = DOWN
        writer.add((b"0",))
        await writer._adder.drained()
        (fragment,) = writer.metadata.fragments
        assert fragment.first_entry_id == 0
        assert victim.bookie_id not in fragment.ensemble
        assert await closed_and_read(world, writer) == [b"0"]

    run_fast(story)


def test_complete_entry_becomes_incomplete_when_its_bookie_is_replaced() -> None:
    """BookKeeper #4097: complete entries that wait behind another are sent to new bookies, too."""

    async def story(world: FastWorld) -> None:
        listener = Listener()
        writer = await world.client.create_ledger(STRIPED, listener)
        first, second, third = world.ensemble(writer)
        first.hold()
        for i in range(4):  # write sets: 0 = b0 b1, 1 = b1 b2, 2 = b2 b0, 3 = b0 b1
            writer.add((b"%d" % i,))
        await settle()
        assert listener.confirmed == []  # entry 1 is complete, and waits for entry 0
        world.store.hold()
        second.fault = DOWN
        writer.add((b"4",))  # b1 b2
        await settle()
        first.release()
        await settle()
        assert writer.lac == -1
        (spare, *_) = world.others(writer)
        world.store.release()
        await settle()
        (newcomer,) = [b for b in world.ensemble(writer) if b not in (first, third)]
        assert added(newcomer) == [0, 1, 3, 4]
        assert spare in world.bookies
        assert await closed_and_read(world, writer) == [b"%d" % i for i in range(5)]

    run_fast(story)


def test_late_answers_of_a_replaced_bookie_do_not_count() -> None:
    async def story(world: FastWorld) -> None:
        writer, listener = await started(world, confirmed=1)
        first, second, third = world.ensemble(writer)
        for bookie in (first, second, third):
            bookie.hold()
        writer.add((b"1",))
        await settle()
        first.lost_answer = lambda request: StatusCode.LOCAL_TIMEOUT
        first.release()
        first.lost_answer = no_fault
        for bookie in world.others(writer):
            bookie.hold()
        await settle()
        assert first.bookie_id not in writer.metadata.fragments[-1].ensemble
        writer._adder._on_reply(  # as if the time-out had been early
            writer._adder._pending[0][1], first.bookie_id, 0,
            AddResponse(StatusCode.EOK, writer.ledger_id, 1),
        )  # fmt: skip
        second.release()
        assert listener.confirmed == [0]
        third.release()
        assert listener.confirmed == [0, 1]

    run_fast(story)


def test_crashed_bookie_that_fails_twice_is_replaced_once() -> None:
    """BookKeeper #4261: its late failures hit nobody, and no entry waits for ever."""

    async def story(world: FastWorld) -> None:
        writer, listener = await started(world, confirmed=1)
        victim, *_ = world.ensemble(writer)
        victim.hold()
        for i in range(1, 8):
            writer.add((b"%d" % i,))
        await settle()
        victim.fault = DOWN
        victim.release(2)
        await settle()
        assert listener.confirmed[-1] == 7
        victim.release()
        writer.add((b"8",))
        await writer._adder.drained()
        assert world.client.metrics.ensemble_changes_total == 1
        assert listener.confirmed[-1] == 8

    run_fast(story)


def test_failure_behind_the_confirmation_is_not_lost() -> None:
    async def story(world: FastWorld) -> None:
        writer, _ = await started(world, confirmed=1)
        slow, *_ = world.ensemble(writer)
        slow.hold()
        writer.add((b"1",))
        await writer._adder.drained()
        slow.fault = SILENT
        slow.release()
        writer.add((b"2",))
        await writer._adder.drained()
        await settle()
        assert slow.bookie_id not in writer.metadata.fragments[-1].ensemble
        assert await closed_and_read(world, writer) == [b"0", b"1", b"2"]

    run_fast(story)


DELAYED = replace(REPLICATED, delay_ensemble_change=True)


def test_delayed_change_waits_until_the_quorum_is_out_of_reach() -> None:
    async def story(world: FastWorld) -> None:
        writer, _ = await started(world, DELAYED, confirmed=1)
        first, second, _ = world.ensemble(writer)
        first.fault = DOWN
        for i in range(1, 4):
            writer.add((b"%d" % i,))
            await writer._adder.drained()
        await settle()
        assert len(writer.metadata.fragments) == 1
        second.fault = DOWN
        writer.add((b"4",))
        await writer._adder.drained()
        last = writer.metadata.fragments[-1]
        assert last.first_entry_id == 4
        assert {first.bookie_id, second.bookie_id}.isdisjoint(last.ensemble)
        assert await closed_and_read(world, writer) == [b"%d" % i for i in range(5)]

    run_fast(story)


def test_read_only_bookie_is_replaced_without_delay() -> None:
    async def story(world: FastWorld) -> None:
        writer, _ = await started(world, DELAYED, confirmed=1)
        victim, *_ = world.ensemble(writer)
        victim.fault = READ_ONLY
        writer.add((b"1",))
        await writer._adder.drained()
        await settle()
        assert victim.bookie_id not in writer.metadata.fragments[-1].ensemble

    run_fast(story)


def test_one_change_more_than_allowed_ends_the_ledger() -> None:
    async def story(world: FastWorld) -> None:
        writer, listener = await started(
            world, replace(REPLICATED, ensemble_changes_max=1), confirmed=1
        )
        for i in (1, 2):
            world.ensemble(writer)[0].fault = DOWN
            writer.add((b"%d" % i,))
            await settle()
        (error,) = listener.errors
        assert isinstance(error, NotEnoughBookies)
        assert "changed its ensemble 1 times" in str(error)
        assert await read_all(world, writer.ledger_id) == [b"0", b"1", b"2"]

    run_fast(story, bookies=6)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda m: m.in_recovery(), LedgerFenced),
        (lambda m: m.closed(1, 2), LedgerClosed),
        (
            lambda m: replace(m, fragments=with_ensemble(m.fragments, 9, m.fragments[0].ensemble)),
            MetadataConflict,
        ),
    ],
    ids=["in recovery", "closed", "written behind our end"],
)
def test_ledger_that_another_took_is_left_alone(
    change: Callable[[LedgerMetadata], LedgerMetadata], error: type[CoreError]
) -> None:
    async def story(world: FastWorld) -> None:
        writer, listener = await started(world, confirmed=2)
        nodes = writer._nodes
        theirs = await nodes.update(await nodes.read(writer.ledger_id), change)
        world.ensemble(writer)[0].fault = DOWN
        writer.add((b"2",))
        await settle()
        assert [type(e) for e in listener.errors] == [error]
        assert world.stored(writer.ledger_id) == theirs.metadata

    run_fast(story)


def test_deleted_ledger_ends_its_writer() -> None:
    async def story(world: FastWorld) -> None:
        writer, listener = await started(world, confirmed=1)
        await world.client.delete_ledger(writer.ledger_id)
        world.ensemble(writer)[0].fault = DOWN
        writer.add((b"1",))
        await settle()
        assert len(listener.errors) == 1

    run_fast(story)


def test_without_a_spare_bookie_it_goes_on_while_a_quorum_answers() -> None:
    """The dead one is replaced some time after there is another."""

    async def story(world: FastWorld) -> None:
        writer, listener = await started(world, confirmed=1)
        victim, _, _ = world.ensemble(writer)
        victim.fault = DOWN
        for i in range(1, 50):
            writer.add((b"%d" % i,))
            await settle(2)
        await writer._adder.drained()
        assert world.client.metrics.ensemble_changes_refused_total == 1
        assert listener.errors == []
        spare = world.add_bookie()
        world.client._bookies._clients[spare.bookie_id] = spare
        await asyncio.sleep(2)
        writer.add((b"50",))
        await writer._adder.drained()
        await settle()
        assert writer.metadata.fragments[-1].ensemble.count(spare.bookie_id) == 1
        assert await closed_and_read(world, writer) == [b"%d" % i for i in range(51)]

    run_fast(story, bookies=3)


def test_without_a_spare_bookie_and_without_a_quorum_it_ends() -> None:
    async def story(world: FastWorld) -> None:
        writer, listener = await started(world, confirmed=1)
        for bookie in world.ensemble(writer)[:2]:
            bookie.fault = DOWN
        writer.add((b"1",))
        await settle()
        assert [type(e) for e in listener.errors] == [BookieUnavailable]
        assert writer.lac == 0

    run_fast(story, bookies=3)


def test_one_spare_for_two_failed_bookies_is_enough_for_a_quorum() -> None:
    async def story(world: FastWorld) -> None:
        writer, listener = await started(world, confirmed=1)
        for bookie in world.ensemble(writer)[:2]:
            bookie.fault = DOWN
        for i in range(1, 5):
            writer.add((b"%d" % i,))
        assert await closed_and_read(world, writer) == [b"%d" % i for i in range(5)]
        assert listener.errors == []

    run_fast(story, bookies=4)


@pytest.mark.parametrize("outage", ["lost request", "lost answer"])
def test_change_survives_a_metadata_store_that_is_away_for_a_while(outage: str) -> None:
    async def story(world: FastWorld) -> None:
        writer, listener = await started(world, confirmed=2)
        victim, *_ = world.ensemble(writer)
        away = iter([outage] * 4)
        world.store.outage = lambda: next(away, "")
        victim.fault = DOWN
        for i in range(2, 6):
            writer.add((b"%d" % i,))
        await writer._adder.drained()
        assert len(writer.metadata.fragments) == 2
        assert world.stored(writer.ledger_id) == writer.metadata
        world.store.outage = no_outage
        assert await closed_and_read(world, writer) == [b"%d" % i for i in range(6)]
        assert listener.errors == []

    run_fast(story)


def test_metadata_store_that_stays_away_ends_the_writer_and_not_the_data() -> None:
    async def story(world: FastWorld) -> None:
        writer, listener = await started(world, confirmed=2)
        world.store.outage = lambda: "lost request"
        world.ensemble(writer)[0].fault = DOWN
        for i in range(2, 6):
            writer.add((b"%d" % i,))
        with pytest.raises(Unavailable):
            await writer.close()
        assert [type(e) for e in listener.errors] == [Unavailable]
        world.store.outage = no_outage
        assert (await read_all(world, writer.ledger_id))[: writer.lac + 1] == [
            b"%d" % i for i in range(writer.lac + 1)
        ]

    run_fast(story)


def test_ensemble_that_somebody_else_changed_is_taken_over() -> None:
    async def story(world: FastWorld) -> None:
        writer, _ = await started(world)
        first, second, third = world.ensemble(writer)
        theirs, *_ = world.others(writer)
        nodes = writer._nodes
        fragment = Fragment(0, (theirs.bookie_id, second.bookie_id, third.bookie_id))
        await nodes.update(
            await nodes.read(writer.ledger_id), lambda m: replace(m, fragments=(fragment,))
        )
        first.fault = DOWN
        writer.add((b"0",))
        await writer._adder.drained()
        await settle()
        assert writer.metadata.fragments == (fragment,)
        assert added(theirs) == [0]
        assert await closed_and_read(world, writer) == [b"0"]

    run_fast(story)


def test_close_waits_for_a_change_and_leaves_no_empty_fragment() -> None:
    async def story(world: FastWorld) -> None:
        writer, _ = await started(world, confirmed=1)
        slow, *_ = world.ensemble(writer)
        slow.hold()
        writer.add((b"1",))
        await writer._adder.drained()
        world.store.hold()
        slow.fault = DOWN
        slow.release()
        closing = asyncio.get_running_loop().create_task(writer.close())
        await settle()
        assert not closing.done()
        assert world.store.waiting == 1
        world.store.release()
        await closing
        metadata = world.stored(writer.ledger_id)
        assert metadata.state is LedgerState.CLOSED
        assert [f.first_entry_id for f in metadata.fragments] == [0]
        assert await read_all(world, writer.ledger_id) == [b"0", b"1"]

    run_fast(story)


def test_aborted_writer_changes_nothing_any_more() -> None:
    async def story(world: FastWorld) -> None:
        writer, _ = await started(world, confirmed=1)
        world.store.hold()
        world.ensemble(writer)[0].fault = DOWN
        writer.add((b"1",))
        await settle()
        assert world.store.waiting == 1
        writer.abort()
        await settle()
        world.store.release()
        await settle()
        assert len(world.stored(writer.ledger_id).fragments) == 1
        assert await read_all(world, writer.ledger_id) == [b"0", b"1"]

    run_fast(story)


def test_add_that_is_to_be_sent_again_is_dropped_with_its_bookie() -> None:
    async def story(world: FastWorld) -> None:
        writer, _ = await started(world, confirmed=1)
        busy, *_ = world.ensemble(writer)
        busy.fault = lambda r: StatusCode.ETOOMANYREQUESTS if isinstance(r, AddRequest) else None
        writer.add((b"1",))
        await settle()
        busy.fault = DOWN
        writer.add((b"2",))
        await settle()
        assert busy.bookie_id not in writer.metadata.fragments[-1].ensemble
        sent = len(busy.requests)
        await asyncio.sleep(10)
        assert len(busy.requests) == sent
        assert await closed_and_read(world, writer) == [b"0", b"1", b"2"]

    run_fast(story)


def test_entry_waits_for_a_second_rack_if_that_is_asked_for() -> None:
    """enforceMinNumFaultDomainsForWrite: Qa bookies of one rack are not enough."""

    async def story(world: FastWorld) -> None:
        racks = [f"b{i}=/default-region/rack{i % 2}" for i in range(3)]
        placement = PlacementConfig(locations=tuple(racks), enforce_fault_domains=True)
        registry = LocalBookies(world.bookies)
        ensembles = Ensembles(registry, Random(7), placement=placement)
        client = LedgerClient(world.store, registry, rng=Random(7), ensembles=ensembles)
        listener = Listener()
        writer = await client.create_ledger(REPLICATED, listener)
        alone = world.bookies[1]
        alone.hold()
        writer.add((b"0",))
        await settle()
        assert listener.confirmed == []
        alone.release()
        await settle()
        assert listener.confirmed == [0]
        await writer.close()

    run_fast(story, bookies=3)
