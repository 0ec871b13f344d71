"""Marks, locks and switches: what BookKeeper's underreplication manager promises, and more."""

import asyncio
from typing import Any

import pytest

from tailrace.core.autorecovery.shared_state import ALL_LEDGERS
from tailrace.core.autorecovery.underreplicated import UnderreplicatedLedgers
from tailrace.core.errors import CorruptData, NoNode, Unavailable
from tailrace.core.metadata.layout import LEDGERS_ROOT, UnderreplicationPaths
from tailrace.core.metadata.underreplication import Mark, decode_lock, encode_mark
from tailrace.core.runtime.clock import ManualClock, SystemClock
from tailrace.protocol.ids import LedgerId
from tests.unit.core.autorecovery.conftest import B1, B2, B3, Cluster, Deaf, Eventful

PATHS = UnderreplicationPaths(LEDGERS_ROOT)
L1, L2, L3 = LedgerId(1), LedgerId(2), LedgerId(0x1_0003)
LONG = LedgerId(2**40 + 5)


async def taken_ids(marks: UnderreplicatedLedgers) -> list[int]:
    found = []
    while (taken := await marks.take()) is not None:
        found.append(taken.ledger_id)
    return sorted(found)


def test_marks_are_listed_in_order(run_alone: Any) -> None:
    async def story(cluster: Cluster) -> None:
        clock = ManualClock(5_000)
        marks = await cluster.marks(clock=clock)
        assert [each async for each in marks.marked()] == []
        for ledger_id in (LONG, L3, L1, L2):
            await marks.mark(ledger_id, [B2, B1, B2])
        found = [each async for each in marks.marked()]
        assert found == [(each, Mark((B1, B2), 5_000)) for each in (L1, L2, L3, LONG)]
        assert await marks.get(L3) == Mark((B1, B2), 5_000)
        assert await marks.get(LedgerId(9)) is None
        with pytest.raises(ValueError, match="nobody"):
            await marks.mark(L1, [])

    run_alone(story)


def test_marking_again_adds_who_is_new(run_alone: Any) -> None:
    async def story(cluster: Cluster) -> None:
        store = await cluster.open()
        clock = ManualClock(5_000)
        marks = await cluster.marks(clock=clock, store=store)
        await marks.mark(L1, [B3])
        clock.advance_ms(10)
        await marks.mark(L1, [B3])
        node = await store.get(PATHS.mark(L1))
        assert (node.version, node.data) == (0, encode_mark(Mark((B3,), 5_000)))
        await marks.mark(L1, [B2, B3, B1])
        node = await store.get(PATHS.mark(L1))
        assert (node.version, node.data) == (1, encode_mark(Mark((B3, B1, B2), 5_010)))

    run_alone(story)


def test_a_mark_that_cannot_be_read_is_one_all_the_same(run_alone: Any) -> None:
    async def story(cluster: Cluster) -> None:
        store = await cluster.open()
        marks = await cluster.marks(store=store)
        await store.create(PATHS.mark(L1), b"\xff no mark", parents=True)
        assert [each async for each in marks.marked()] == [(L1, Mark(()))]
        await marks.mark(L1, [B1])
        assert (await marks.get(L1) or Mark(())).missing == (B1,)

    run_alone(story)


def test_what_is_no_mark_is_passed_by(run_alone: Any) -> None:
    async def story(cluster: Cluster) -> None:
        store = await cluster.open()
        marks = await cluster.marks(store=store)
        await marks.mark(L1, [B1])
        await store.create(f"{PATHS.ledgers}/stray/0000", parents=True)
        ffff = "/".join(["ffff"] * 4)
        await store.create(f"{PATHS.ledgers}/{ffff}/urL{2**64 - 1}", parents=True)
        assert [each.ledger_id async for each in marks.marked()] == [L1]
        assert await taken_ids(marks) == [L1]

    run_alone(story)


def test_a_layout_of_another_kind_is_refused(run_alone: Any) -> None:
    async def story(cluster: Cluster) -> None:
        store = await cluster.open()
        marks = await cluster.marks(store=store)
        await marks.prepare()
        await store.set(PATHS.layout, b'type: "OTHER"\nversion: 1\n')
        with pytest.raises(CorruptData, match="OTHER"):
            await marks.prepare()
        elsewhere = UnderreplicatedLedgers(store, "/nowhere", "w", ManualClock(), marks._rng)
        with pytest.raises(NoNode, match="/nowhere"):
            await elsewhere.prepare()
        assert await store.exists("/nowhere") is None

    run_alone(story)


def test_take_locks_and_done_leaves_nothing(run_alone: Any) -> None:
    async def story(cluster: Cluster) -> None:
        store = await cluster.open()
        marks = await cluster.marks(store=store)
        assert await marks.take() is None
        await marks.mark(L1, [B1])
        await marks.mark(LONG, [B1])
        first, second = await marks.take(), await marks.take()
        assert first is not None
        assert second is not None
        assert {first.ledger_id, second.ledger_id} == {L1, LONG}
        assert await marks.take() is None
        for taken in (first, second):
            lock = await store.get(PATHS.lock(taken.ledger_id))
            assert (decode_lock(lock.data), lock.ephemeral_owner) == ("w1", store.session_id)
            assert marks.is_held(taken)
            assert await marks.done(taken)
            assert not marks.is_held(taken)
            assert await marks.done(taken)
        assert await store.children(PATHS.locks) == []
        assert await store.children(PATHS.ledgers) == []

    run_alone(story)


def test_pruning_stops_at_what_others_need(run_alone: Any) -> None:
    async def story(cluster: Cluster) -> None:
        store = await cluster.open()
        marks = await cluster.marks(store=store)
        await marks.mark(L1, [B1])
        taken = await marks.take()
        assert taken is not None
        await marks.mark(L3, [B1])
        assert await marks.done(taken)
        assert await store.children(f"{PATHS.ledgers}/0000/0000") == ["0001"]
        assert await taken_ids(marks) == [L3]

    run_alone(story)


def test_a_ledger_marked_anew_while_it_is_copied_stays(run_alone: Any) -> None:
    async def story(cluster: Cluster) -> None:
        marks = await cluster.marks()
        await marks.mark(L1, [B1])
        for missing in ([B2], [B2]):  # somebody else, and somebody who is noted already
            taken = await marks.take()
            assert taken is not None
            await marks.mark(L1, missing)
            assert not await marks.done(taken)
            assert not marks.is_held(taken)
        taken = await marks.take()
        assert taken is not None
        assert taken.mark.missing == (B1, B2)
        assert await marks.done(taken)
        assert await marks.take() is None

    run_alone(story)


def test_a_released_ledger_can_be_taken_again(run_alone: Any) -> None:
    async def story(cluster: Cluster) -> None:
        marks = await cluster.marks()
        await marks.mark(L1, [B1])
        for _ in range(3):
            taken = await marks.take()
            assert taken is not None
            assert await marks.take() is None
            await marks.release(taken)
            await marks.release(taken)

    run_alone(story)


def test_what_is_set_aside_is_taken_later(run_alone: Any) -> None:
    async def story(cluster: Cluster) -> None:
        clock = ManualClock()
        marks = await cluster.marks(clock=clock)
        await marks.mark(L1, [B1])
        await marks.mark(L2, [B1])
        marks.set_aside(L1, 10)
        assert await taken_ids(marks) == [L2]
        clock.advance_ms(9_999)
        assert await marks.take() is None
        clock.advance_ms(1)
        assert await taken_ids(marks) == [L1]

    run_alone(story)


def test_a_wait_ends_with_what_was_set_aside(run_alone: Any) -> None:
    async def story(cluster: Cluster) -> None:
        marks = await cluster.marks(clock=SystemClock())
        await marks.mark(L1, [B1])
        marks.set_aside(L1, 0.05)
        while await marks.take() is None:
            await marks.wait_for_work()
        assert await marks.take() is None
        waiting = asyncio.create_task(marks.wait_for_work())
        for _ in range(3):  # what was set aside and is over wakes nobody for ever
            await marks.is_enabled()
        assert not waiting.done()
        waiting.cancel()

    run_alone(story)


def test_a_wait_ends_with_a_mark(run_alone: Any) -> None:
    async def story(cluster: Cluster) -> None:
        store = await cluster.open()
        marks = await cluster.marks(store=store)
        for ledger_id in (L1, L2, L3, LONG, L1):
            assert await marks.take() is None
            waiting = asyncio.create_task(marks.wait_for_work())
            await marks.is_enabled()
            assert not waiting.done()
            await marks.mark(ledger_id, [B1])
            await waiting
            taken = await marks.take()
            assert taken is not None
            assert taken.ledger_id == ledger_id
            await marks.done(taken)
            while await marks.take() is None and marks._news.is_set():
                pass  # our own traces

    run_alone(story)


def test_a_mark_in_a_directory_that_was_there_is_seen(run_alone: Any) -> None:
    async def story(cluster: Cluster) -> None:
        store = await cluster.open()
        marks = await cluster.marks(store=store)
        directory = PATHS.mark(L1).rpartition("/")[0]
        await store.create(directory, parents=True)  # as Java makes it: step by step
        assert await marks.take() is None
        await store.create(PATHS.mark(L1), encode_mark(Mark((B1,))))
        await marks.wait_for_work()
        assert await taken_ids(marks) == [L1]

    run_alone(story)


def test_a_directory_without_a_mark_costs_no_locks(run_alone: Any) -> None:
    async def story(cluster: Cluster) -> None:
        store = await cluster.open()
        marks = await cluster.marks(store=store)
        await store.create(PATHS.mark(L1).rpartition("/")[0], parents=True)
        before = (await store.get(PATHS.locks)).cversion
        assert await marks.take() is None
        assert (await store.get(PATHS.locks)).cversion == before

    run_alone(story)


def test_several_tasks_take_different_ledgers(run_alone: Any) -> None:
    async def story(cluster: Cluster) -> None:
        marks = await cluster.marks()
        for number in range(20):
            await marks.mark(LedgerId(number * 40_000), [B1])
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(marks.take()) for _ in range(21)]
        found = [task.result() for task in tasks]
        assert len({taken.ledger_id for taken in found if taken is not None}) == 20

    run_alone(story)


def test_workers_take_in_orders_of_their_own(run: Any) -> None:
    async def story(cluster: Cluster) -> None:
        some, others = await cluster.marks("w1"), await cluster.marks("w2")
        for number in range(30):
            await some.mark(LedgerId(number), [B1])
        first = [await some.take(), await some.take(), await some.take()]
        second = [await others.take(), await others.take(), await others.take()]
        ids = [taken.ledger_id for taken in (*first, *second) if taken is not None]
        assert len(set(ids)) == 6
        for three in (ids[:3], ids[3:]):
            assert three not in (sorted(three), sorted(three, reverse=True))

    run(story)


def test_a_lock_of_another_is_passed_by_until_it_goes(run: Any) -> None:
    async def story(cluster: Cluster) -> None:
        some, others = await cluster.marks("w1"), await cluster.marks("w2")
        await some.mark(L1, [B1])
        taken = await some.take()
        assert taken is not None
        assert await others.take() is None
        waiting = asyncio.create_task(others.wait_for_work())
        await others.is_enabled()
        assert not waiting.done()
        await some.release(taken)
        await waiting
        theirs = await others.take()
        assert theirs is not None
        assert not some.is_held(taken)
        await some.release(taken)
        assert not await some.done(taken)
        assert others.is_held(theirs)
        assert await others.done(theirs)
        assert await some.done(taken)  # whoever did it

    run(story)


def test_what_is_locked_is_not_tried(run: Any) -> None:
    async def story(cluster: Cluster) -> None:
        store: Any = Eventful(await cluster.open())
        some, others = await cluster.marks("w1"), await cluster.marks("w2", store=store)
        await some.mark(L1, [B1])
        assert await some.take() is not None

        async def fail() -> None:
            raise AssertionError("it tried to lock")

        store.beside("create", fail, is_before=True)
        assert await others.take() is None

    run(story)


def test_a_lock_goes_with_its_session(run: Any) -> None:
    async def story(cluster: Cluster) -> None:
        store = await cluster.open()
        some, others = await cluster.marks("w1", store=store), await cluster.marks("w2")
        await some.mark(L1, [B1])
        taken = await some.take()
        assert taken is not None
        assert await others.take() is None
        await cluster.expire(store)
        await others.wait_for_work()
        theirs = await others.take()
        assert theirs is not None
        assert not some.is_held(taken)
        assert not await some.done(taken)
        await some.release(taken)
        assert await others.done(theirs)

    run(story)


def test_a_done_of_a_former_session_deletes_no_newer_mark(run: Any) -> None:
    """Versions begin anew with a node, so they do not tell the mark after the next one."""

    async def story(cluster: Cluster) -> None:
        store = await cluster.open()
        some, others = await cluster.marks("w1", store=store), await cluster.marks("w2")
        await some.mark(L1, [B1])
        taken = await some.take()
        assert taken is not None
        await cluster.expire(store)
        theirs = await others.take()
        assert theirs is not None
        assert await others.done(theirs)
        await others.mark(L1, [B2])
        assert not await some.done(taken)
        assert (await others.get(L1) or Mark(())).missing == (B2,)

    run(story)


def test_waiting_ends_with_the_session(run: Any) -> None:
    async def story(cluster: Cluster) -> None:
        store = await cluster.open()
        marks = await cluster.marks(store=store)
        await marks.mark(L1, [B1])
        taken = await marks.take()
        assert taken is not None
        assert await marks.take() is None
        await cluster.expire(store)
        await marks.wait_for_work()
        assert await taken_ids(marks) == [L1]

    run(story)


@pytest.mark.parametrize("is_done", [True, False])
@pytest.mark.parametrize("what", ["create", "children", "exists"])
def test_a_take_without_an_answer_leaves_no_lock(run_alone: Any, what: str, is_done: bool) -> None:
    async def story(cluster: Cluster) -> None:
        deaf: Any = Deaf(await cluster.open())
        marks = await cluster.marks(store=deaf)
        await marks.mark(L1, [B1])
        deaf.drops, deaf.is_done = what, is_done
        with pytest.raises(Unavailable):
            await marks.take()
        async with asyncio.timeout(20):
            await marks.wait_for_work()  # it may be there all the same
        assert await taken_ids(marks) == [L1]

    run_alone(story)


def test_a_cancelled_take_leaves_no_lock(run_alone: Any) -> None:
    async def story(cluster: Cluster) -> None:
        store = await cluster.open()
        marks = await cluster.marks(store=store)
        await marks.mark(L1, [B1])
        for steps in range(12):
            taking = asyncio.create_task(marks.take())
            for _ in range(steps):
                await asyncio.sleep(0)
                await store.sync()
            taking.cancel()
            await asyncio.wait([taking])
            if not taking.cancelled():
                taken = taking.result()
                assert taken is not None
                await marks.release(taken)
            assert await taken_ids(marks) == [L1], steps
            lock = await store.get(PATHS.lock(L1))
            await store.delete(PATHS.lock(L1), lock.version)
            marks._locks.forget(L1)

    run_alone(story)


@pytest.mark.parametrize("is_done", [True, False])
@pytest.mark.parametrize("what", ["exists", "delete"])
def test_a_release_without_an_answer_is_done_later(
    run_alone: Any, what: str, is_done: bool
) -> None:
    async def story(cluster: Cluster) -> None:
        deaf: Any = Deaf(await cluster.open())
        marks = await cluster.marks(store=deaf)
        await marks.mark(L1, [B1])
        taken = await marks.take()
        assert taken is not None
        deaf.drops, deaf.is_done = what, is_done
        with pytest.raises(Unavailable):
            await marks.release(taken)
        assert not marks.is_held(taken)
        assert await taken_ids(marks) == [L1]

    run_alone(story)


@pytest.mark.parametrize("is_done", [True, False])
@pytest.mark.parametrize("what", ["exists", "multi", "delete"])
def test_a_done_without_an_answer_is_done_again(run_alone: Any, what: str, is_done: bool) -> None:
    async def story(cluster: Cluster) -> None:
        deaf: Any = Deaf(await cluster.open())
        marks = await cluster.marks(store=deaf)
        await marks.mark(L1, [B1])
        taken = await marks.take()
        assert taken is not None
        deaf.drops, deaf.is_done = what, is_done
        with pytest.raises(Unavailable):
            await marks.done(taken)
        assert await marks.done(taken)
        assert await marks.take() is None
        assert await marks.get(L1) is None

    run_alone(story)


@pytest.mark.parametrize("is_done", [True, False])
@pytest.mark.parametrize("what", ["create", "set", "get_all"])
def test_a_mark_without_an_answer_is_made_again(run_alone: Any, what: str, is_done: bool) -> None:
    async def story(cluster: Cluster) -> None:
        deaf: Any = Deaf(await cluster.open())
        marks = await cluster.marks(store=deaf)
        if what != "create":
            await marks.mark(L1, [B1])
        deaf.drops, deaf.is_done = what, is_done
        with pytest.raises(Unavailable):
            await marks.mark(L1, [B2])
        await marks.mark(L1, [B2])
        assert B2 in (await marks.get(L1) or Mark(())).missing

    run_alone(story)


def test_a_mark_whose_directories_go_is_made_again(run_alone: Any) -> None:
    async def story(cluster: Cluster) -> None:
        store: Any = Eventful(await cluster.open())
        marks = await cluster.marks(store=store)

        async def fail() -> None:
            raise NoNode("pruned a moment ago, as often as it was made")

        store.beside("create", fail, is_before=True)
        await marks.mark(L1, [B1])
        assert await taken_ids(marks) == [L1]

    run_alone(story)


def test_a_session_that_ends_while_it_takes_leaves_nothing_taken(run: Any) -> None:
    async def story(cluster: Cluster) -> None:
        store: Any = Eventful(await cluster.open())
        marks = await cluster.marks(store=store)
        await marks.mark(L1, [B1])
        store.beside("create", lambda: cluster.expire(store), is_before=False)
        taken = await marks.take()
        assert taken is None or marks.is_held(taken)
        if taken is None:
            await marks.wait_for_work()
            assert await taken_ids(marks) == [L1]

    run(story)


def test_a_mark_that_goes_while_it_is_taken_leaves_no_lock(run_alone: Any) -> None:
    async def story(cluster: Cluster) -> None:
        store: Any = Eventful(await cluster.open())
        marks = await cluster.marks(store=store)
        await marks.mark(L1, [B1])
        store.beside("create", lambda: store.delete(PATHS.mark(L1)), is_before=False)
        assert await marks.take() is None
        assert await store.children(PATHS.locks) == []
        await marks.mark(L1, [B1])
        await marks.wait_for_work()
        assert await taken_ids(marks) == [L1]

    run_alone(story)


@pytest.mark.parametrize("what", ["done", "release"])
def test_a_session_that_ends_meanwhile_costs_nobody_else_his_lock(run: Any, what: str) -> None:
    async def story(cluster: Cluster) -> None:
        store: Any = Eventful(await cluster.open())
        some, others = await cluster.marks("w1", store=store), await cluster.marks("w2")
        await some.mark(L1, [B1])
        taken = await some.take()
        assert taken is not None
        theirs = None

        async def another_takes_it() -> None:
            nonlocal theirs
            await cluster.expire(store)
            theirs = await others.take()

        store.beside("exists", another_takes_it, is_before=True)
        if what == "done":
            assert not await some.done(taken)
        else:
            await some.release(taken)
        assert theirs is not None
        assert await others.done(theirs)

    run(story)


def test_many_mark_one_ledger_at_once_and_nobody_is_lost(run: Any) -> None:
    async def story(cluster: Cluster) -> None:
        several = [await cluster.marks(f"a{number}") for number in range(4)]
        async with asyncio.TaskGroup() as group:
            for marks, missing in zip(several, ([B1], [B2], [B3], [B1, B3]), strict=True):
                group.create_task(marks.mark(L1, missing))
        assert sorted((await several[0].get(L1) or Mark(())).missing) == [B1, B2, B3]

    run(story)


def test_marking_and_finishing_race(run: Any) -> None:
    """While one marks, the other finishes and prunes: no mark is lost, none fails."""

    async def story(cluster: Cluster) -> None:
        some, others = await cluster.marks("a"), await cluster.marks("w")
        is_over = False

        async def work() -> int:
            count = 0
            while True:
                taken = await others.take()
                if taken is not None:
                    count += await others.done(taken)
                elif is_over:
                    return count

        working = asyncio.create_task(work())
        for number in range(40):
            await some.mark(LedgerId(number % 3), [B1, B2, B3][: number % 3 + 1])
        is_over = True
        assert await working > 0
        assert [each async for each in some.marked()] == []

    run(story)


def test_disabling_and_enabling(run_alone: Any) -> None:
    async def story(cluster: Cluster) -> None:
        marks = await cluster.marks()
        assert await marks.is_enabled()
        await marks.wait_until_enabled()
        await marks.disable()
        await marks.disable()
        assert not await marks.is_enabled()
        waiting = asyncio.create_task(marks.wait_until_enabled())
        for _ in range(3):
            await marks.is_enabled()
        assert not waiting.done()
        await marks.enable()
        await waiting
        await marks.enable()
        assert await marks.is_enabled()

    run_alone(story)


def test_the_delay_is_kept_as_text(run_alone: Any) -> None:
    async def story(cluster: Cluster) -> None:
        store = await cluster.open()
        marks = await cluster.marks(store=store)
        path = PATHS.lost_bookie_recovery_delay
        assert await marks.lost_bookie_recovery_delay_s() is None
        await marks.begin_lost_bookie_recovery_delay_s(30)
        await marks.begin_lost_bookie_recovery_delay_s(40)
        assert await marks.recovery_delay() == (30, 0)
        await marks.set_lost_bookie_recovery_delay_s(30)
        assert await marks.recovery_delay() == (30, 1)
        assert (await store.get(path)).data == b"30"
        await store.delete(path)
        await marks.set_lost_bookie_recovery_delay_s(7)
        assert await marks.lost_bookie_recovery_delay_s() == 7
        for bad in (-1, 2**31):
            with pytest.raises(ValueError, match="delay"):
                await marks.set_lost_bookie_recovery_delay_s(bad)
        for text in (b"", b"-1", b"soon", b"2147483648", "٣".encode()):
            await store.set(path, text)
            with pytest.raises(CorruptData, match="lostBookieRecoveryDelay"):
                await marks.recovery_delay()

    run_alone(story)


def test_times_of_checks(run_alone: Any) -> None:
    async def story(cluster: Cluster) -> None:
        store = await cluster.open()
        marks = await cluster.marks(store=store)
        assert await marks.last_run_ms(ALL_LEDGERS) is None
        for at_ms in (1_700_000_000_000, 1_700_000_000_001):
            await marks.set_last_run_ms(ALL_LEDGERS, at_ms)
            assert await marks.last_run_ms(ALL_LEDGERS) == at_ms
        await store.set(PATHS.check_all_ledgers, b"\xff")
        with pytest.raises(CorruptData, match="checkallledgersctime"):
            await marks.last_run_ms(ALL_LEDGERS)

    run_alone(story)
