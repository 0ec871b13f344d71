"""What BookKeeper's auditor promises: its tests' stories, by name, in virtual time."""

import asyncio
from typing import Any

import pytest

from tailrace.core.autorecovery.audit_rules import SECOND_LOOK_S
from tailrace.core.autorecovery.election import current_auditor
from tailrace.core.autorecovery.registrations import RegistrationWatch
from tailrace.core.autorecovery.shared_state import ALL_LEDGERS
from tailrace.core.errors import BookieUnavailable, CorruptData, LedgerNotFound, Unavailable
from tailrace.core.metadata.layout import LEDGERS_ROOT, UnderreplicationPaths
from tailrace.core.runtime.metrics import Metrics
from tailrace.protocol.ids import LedgerId
from tests.unit.core.autorecovery.audited import (
    PATHS,
    AuditedCluster,
    B,
    RunningAuditor,
    in_virtual_time,
    running,
)
from tests.unit.core.ledger.fast_world import InstantLoop

UNDER = UnderreplicationPaths(LEDGERS_ROOT)
DAY_S = 86_400


async def some_ledgers(cluster: AuditedCluster) -> None:
    await cluster.ledger(1, [B[0], B[1]])
    await cluster.ledger(2, [B[1], B[2]])
    await cluster.ledger(70_000, [B[0], B[1]], [B[0], B[2]])
    await cluster.ledger(2**40, [B[2], B[0]])


# -- AuditorLedgerCheckerTest: lost bookies ---


def test_the_ledgers_of_a_lost_bookie_are_marked() -> None:
    async def story(cluster: AuditedCluster) -> None:
        await some_ledgers(cluster)
        auditor = cluster.auditor()
        async with running(auditor):
            await auditor.audited()
            assert await cluster.marked() == {}
            await cluster.lose(B[2])
            await cluster.until_marked({2: {B[2]}, 70_000: {B[2]}, 2**40: {B[2]}})
            await auditor.audited(2)
            await cluster.lose(B[0])
            everything = {1: {B[0]}, 2: {B[2]}, 70_000: {B[0], B[2]}, 2**40: {B[0], B[2]}}
            await cluster.until_marked(everything)
            assert auditor.metrics.lost_bookies == 2
            assert auditor.metrics.under_replicated_ledgers_total == 3 + 4
            assert auditor.metrics.num_under_replicated_ledgers.total == 3 + 4

    in_virtual_time(story)


def test_a_bookie_that_was_given_up_is_not_lost_any_more() -> None:
    async def story(cluster: AuditedCluster) -> None:
        auditor = cluster.auditor()
        async with running(auditor):
            await auditor.audited()
            await cluster.lose(B[2])
            await auditor.audited(2)
            assert auditor.metrics.lost_bookies == 1
            await cluster.store.delete(PATHS.cookie(B[2]))
            await asyncio.sleep(1)
            assert auditor.metrics.lost_bookies == 0
            assert auditor.metrics.audits_total == 2

    in_virtual_time(story)


def test_bookies_lost_before_the_auditor_began_are_found() -> None:
    async def story(cluster: AuditedCluster) -> None:
        await some_ledgers(cluster)
        await cluster.ledger(3, [B[4], B[0]])  # who has no cookie and is not registered
        await cluster.lose(B[1])
        async with running(cluster.auditor()):
            await cluster.until_marked({1: {B[1]}, 2: {B[1]}, 3: {B[4]}, 70_000: {B[1]}})

    in_virtual_time(story)


def test_a_read_only_bookie_is_not_lost() -> None:
    async def story(cluster: AuditedCluster) -> None:
        await some_ledgers(cluster)
        auditor = cluster.auditor()
        async with running(auditor):
            await auditor.audited()
            for _ in range(20):
                await cluster.store.create(PATHS.read_only_bookie(B[0]), ephemeral=True)
                await cluster.lose(B[0])
                await cluster.back(B[0])
                await cluster.store.delete(PATHS.read_only_bookie(B[0]))
            await asyncio.sleep(100)
            assert await cluster.marked() == {}
            assert auditor.metrics.audits_total == 1
            await cluster.store.create(PATHS.read_only_bookie(B[0]), ephemeral=True)
            await cluster.lose(B[0])
            await cluster.store.delete(PATHS.read_only_bookie(B[0]))
            await cluster.until_marked({1: {B[0]}, 70_000: {B[0]}, 2**40: {B[0]}})

    in_virtual_time(story)


def test_a_lost_bookie_is_given_time() -> None:
    async def story(cluster: AuditedCluster) -> None:
        await some_ledgers(cluster)
        auditor = cluster.auditor(lost_bookie_recovery_delay_s=300)
        async with running(auditor):
            await auditor.audited()
            await cluster.lose(B[1])
            await asyncio.sleep(299)
            assert await cluster.marked() == {}
            await asyncio.sleep(2)
            await cluster.until_marked({1: {B[1]}, 2: {B[1]}, 70_000: {B[1]}})
            assert auditor.metrics.num_bookie_audits_delayed_total == 1

    in_virtual_time(story)


def test_a_delayed_audit_is_cancelled_by_the_bookies_return() -> None:
    async def story(cluster: AuditedCluster) -> None:
        await some_ledgers(cluster)
        auditor = cluster.auditor(lost_bookie_recovery_delay_s=300)
        async with running(auditor):
            await auditor.audited()
            await cluster.lose(B[1])
            await asyncio.sleep(200)
            await cluster.back(B[1])
            await asyncio.sleep(1_000)
            assert await cluster.marked() == {}
            metrics = auditor.metrics
            assert metrics.num_bookie_audits_delayed_total == 1
            assert metrics.num_delayed_bookie_audits_cancelled_total == 1
            assert metrics.audits_total == 1

    in_virtual_time(story)


def test_two_lost_bookies_are_given_no_time() -> None:
    async def story(cluster: AuditedCluster) -> None:
        await some_ledgers(cluster)
        auditor = cluster.auditor(lost_bookie_recovery_delay_s=3_600)
        async with running(auditor):
            await auditor.audited()
            await cluster.lose(B[1])
            await asyncio.sleep(10)
            await cluster.lose(B[2])
            marked = {1: {B[1]}, 2: {B[1], B[2]}, 70_000: {B[1], B[2]}, 2**40: {B[2]}}
            await cluster.until_marked(marked)

    in_virtual_time(story)


def test_a_rolling_restart_is_not_audited() -> None:
    """AuditorRollingRestartTest; here a new auditor gives time as well."""

    async def story(cluster: AuditedCluster) -> None:
        await some_ledgers(cluster)
        for bookie in B[:3]:
            auditor = cluster.auditor(lost_bookie_recovery_delay_s=600)
            async with running(auditor):
                await auditor.audited()
                await cluster.lose(bookie)
                await asyncio.sleep(100)
            auditor = cluster.auditor(lost_bookie_recovery_delay_s=600)
            async with running(auditor):
                await asyncio.sleep(500)
                assert auditor.metrics.elected
                await cluster.back(bookie)
                await auditor.audited()
        assert await cluster.marked() == {}

    in_virtual_time(story)


@pytest.mark.parametrize("new", [3_600, 0])
def test_setting_the_delay_anew_audits_at_once(new: int) -> None:
    """What BookKeeper's triggeraudit and decommissionbookie do."""

    async def story(cluster: AuditedCluster) -> None:
        await some_ledgers(cluster)
        auditor = cluster.auditor(lost_bookie_recovery_delay_s=3_600)
        async with running(auditor):
            await auditor.audited()
            await cluster.lose(B[0])
            await asyncio.sleep(10)
            assert await cluster.marked() == {}
            await cluster.marks.set_lost_bookie_recovery_delay_s(new)
            await cluster.until_marked({1: {B[0]}, 70_000: {B[0]}, 2**40: {B[0]}})
            await cluster.marks.set_lost_bookie_recovery_delay_s(new)
            await auditor.audited(3)

    in_virtual_time(story)


def test_another_delay_moves_a_delayed_audit() -> None:
    async def story(cluster: AuditedCluster) -> None:
        await some_ledgers(cluster)
        auditor = cluster.auditor(lost_bookie_recovery_delay_s=600)
        async with running(auditor):
            await auditor.audited()
            await cluster.lose(B[1])
            await cluster.marks.set_lost_bookie_recovery_delay_s(60)
            await asyncio.sleep(55)
            assert await cluster.marked() == {}
            await asyncio.sleep(6)
            assert await cluster.marked() == {1: {B[1]}, 2: {B[1]}, 70_000: {B[1]}}

    in_virtual_time(story)


def test_a_delay_that_cannot_be_read_leaves_the_former_one() -> None:
    async def story(cluster: AuditedCluster) -> None:
        await some_ledgers(cluster)
        auditor = cluster.auditor(lost_bookie_recovery_delay_s=600)
        async with running(auditor):
            await auditor.audited()
            await cluster.store.set(UNDER.lost_bookie_recovery_delay, b"soon")
            await cluster.lose(B[1])
            await asyncio.sleep(599)
            assert await cluster.marked() == {}
            await asyncio.sleep(10)
            assert len(await cluster.marked()) == 3

    in_virtual_time(story)


def test_nothing_is_audited_while_disabled() -> None:
    async def story(cluster: AuditedCluster) -> None:
        await some_ledgers(cluster)
        await cluster.marks.disable()
        auditor = cluster.auditor(periodic_check_s=100)
        cluster.check.missing[1] = {B[0]}
        async with running(auditor):
            await asyncio.sleep(10)
            await cluster.lose(B[2])
            await asyncio.sleep(1_000)
            assert await cluster.marked() == {}
            assert auditor.metrics.elected
            await cluster.marks.enable()
            await cluster.until_marked({1: {B[0]}, 2: {B[2]}, 70_000: {B[2]}, 2**40: {B[2]}})
            await cluster.marks.disable()
            await cluster.lose(B[1])
            await asyncio.sleep(1_000)
            assert (await cluster.marked())[2] == {B[2]}
            await cluster.marks.enable()
            await asyncio.sleep(10)
            assert (await cluster.marked())[2] == {B[1], B[2]}

    in_virtual_time(story)


def test_disabling_stops_an_audit_on_its_way() -> None:
    async def story(cluster: AuditedCluster) -> None:
        for number in range(400):
            await cluster.ledger(number, [B[0], B[1]])
        auditor = cluster.auditor()
        async with running(auditor):
            await auditor.audited()
            await cluster.lose(B[0])
            await cluster.until_some_are_marked()
            await cluster.marks.disable()
            await asyncio.sleep(100)
            count = len(await cluster.marked())
            assert 0 < count < 400
            assert auditor.metrics.audits_total == 1
            await cluster.marks.enable()
            await asyncio.sleep(10)
            assert len(await cluster.marked()) == 400

    in_virtual_time(story)


def test_a_ledger_deleted_while_it_is_audited_is_no_error() -> None:
    async def story(cluster: AuditedCluster) -> None:
        await some_ledgers(cluster)
        real = cluster.service.open()
        auditor = cluster.auditor()
        get_all = auditor.store.get_all

        async def late(paths: Any) -> Any:
            if PATHS.ledger(LedgerId(1)) in paths and await real.exists(paths[0]):
                await real.delete(PATHS.ledger(LedgerId(1)))
            return await get_all(paths)

        auditor.store.get_all = late
        await cluster.lose(B[0])
        async with running(auditor):
            await cluster.until_marked({70_000: {B[0]}, 2**40: {B[0]}})
            assert auditor.metrics.failures_total == 0

    in_virtual_time(story)


def test_metadata_that_cannot_be_read_stops_nothing() -> None:
    """AuditorPeriodicCheckTest: failed reads of metadata are tolerated, and counted."""

    async def story(cluster: AuditedCluster) -> None:
        await some_ledgers(cluster)
        await cluster.store.set(PATHS.ledger(LedgerId(1)), b"nothing of the kind")
        await cluster.lose(B[0])
        auditor = cluster.auditor()
        async with running(auditor):
            await cluster.until_marked({70_000: {B[0]}, 2**40: {B[0]}})
            await auditor.audited()
            assert auditor.metrics.unreadable_ledgers_total == 1

    in_virtual_time(story)


# -- what must not be taken for lost ---


def test_when_all_vanish_at_once_it_looks_twice() -> None:
    async def story(cluster: AuditedCluster) -> None:
        await some_ledgers(cluster)
        auditor = cluster.auditor()
        async with running(auditor):
            await auditor.audited()
            for _ in range(3):
                vanish(cluster)
                await asyncio.sleep(SECOND_LOOK_S - 2)
                for bookie in B[:3]:
                    await cluster.back(bookie)
                await asyncio.sleep(10)
                assert await cluster.marked() == {}
            vanish(cluster)
            await asyncio.sleep(SECOND_LOOK_S - 2)
            assert await cluster.marked() == {}
            await asyncio.sleep(10)
            assert len(await cluster.marked()) == 4

    in_virtual_time(story)


def vanish(cluster: AuditedCluster) -> None:
    for bookie in B[:3]:
        cluster.service.tree.delete(PATHS.bookie(bookie), -1)
    cluster.service.publish()


def test_a_cluster_that_vanishes_while_it_is_audited_is_not_marked() -> None:
    async def story(cluster: AuditedCluster) -> None:
        for number in range(400):
            await cluster.ledger(number, [B[0], B[1], B[2]])
        auditor = cluster.auditor()
        async with running(auditor):
            await auditor.audited()
            await cluster.lose(B[0])
            await cluster.until_some_are_marked()
            vanish_two(cluster)
            await asyncio.sleep(SECOND_LOOK_S - 2)
            marked = await cluster.marked()
            assert 0 < len(marked) < 400
            assert set().union(*marked.values()) == {B[0]}
            await asyncio.sleep(10)
            marked = await cluster.marked()
            assert len(marked) == 400
            assert set().union(*marked.values()) == {B[0], B[1], B[2]}

    in_virtual_time(story)


def vanish_two(cluster: AuditedCluster) -> None:
    for bookie in B[1:3]:
        cluster.service.tree.delete(PATHS.bookie(bookie), -1)
    cluster.service.publish()


def test_a_bookie_that_comes_back_meanwhile_is_not_marked_any_more() -> None:
    async def story(cluster: AuditedCluster) -> None:
        for number in range(400):
            await cluster.ledger(number, [B[0], B[1]])
        auditor = cluster.auditor()
        async with running(auditor):
            await auditor.audited()
            await cluster.lose(B[0])
            await cluster.until_some_are_marked()
            await cluster.back(B[0])
            await auditor.audited(2)
            assert 0 < len(await cluster.marked()) < 400
            await cluster.lose(B[0])
            await auditor.audited(3)
            assert len(await cluster.marked()) == 400

    in_virtual_time(story)


def test_who_is_lost_during_an_audit_is_given_time_all_the_same() -> None:
    async def story(cluster: AuditedCluster) -> None:
        for number in range(400):
            await cluster.ledger(number, [B[0], B[1], B[2]])
        auditor = cluster.auditor(lost_bookie_recovery_delay_s=600)
        async with running(auditor):
            await auditor.audited()
            await cluster.lose(B[0])
            await cluster.marks.set_lost_bookie_recovery_delay_s(600)
            await cluster.until_some_are_marked()
            await cluster.lose(B[1])
            await asyncio.sleep(500)
            marked = await cluster.marked()
            assert len(marked) == 400
            assert set().union(*marked.values()) == {B[0]}
            await asyncio.sleep(200)
            assert set().union(*(await cluster.marked()).values()) == {B[0], B[1]}

    in_virtual_time(story)


def test_who_changes_his_mode_while_the_lists_are_read_is_seen() -> None:
    async def story(cluster: AuditedCluster) -> None:
        store: Any = cluster.service.open()
        children, sync = store.children, store.sync
        changed = asyncio.Event()
        log: list[str] = []
        await cluster.store.create(PATHS.read_only_bookie(B[5]), ephemeral=True)

        async def in_turn(path: str, watch: Any = None) -> Any:
            log.append(path)
            if path == PATHS.read_only:  # it was not writable a moment ago
                await cluster.back(B[5])
                await cluster.store.delete(PATHS.read_only_bookie(B[5]))
                changed.set()
            elif log.count(PATHS.available) == 2:
                await changed.wait()
            return await children(path, watch)

        async def noted() -> None:
            log.append("sync")
            await sync()

        store.children, store.sync = in_turn, noted
        seen = await RegistrationWatch(store, LEDGERS_ROOT, lambda: None).look()
        assert B[5] in seen.available
        assert log[0] == "sync"

    in_virtual_time(story)


def test_lists_that_cannot_be_read_say_nothing() -> None:
    async def story(cluster: AuditedCluster) -> None:
        await some_ledgers(cluster)
        auditor = cluster.auditor()
        async with running(auditor):
            await auditor.audited()
            children = auditor.store.children

            async def unread(path: str, watch: Any = None) -> Any:
                if path == PATHS.available:
                    raise Unavailable("nobody answers")
                return await children(path, watch)

            auditor.store.children = unread
            await cluster.lose(B[0])
            await asyncio.sleep(1_000)
            assert await cluster.marked() == {}
            assert 10 < auditor.metrics.failures_total < 100
            auditor.store.children = children
            await asyncio.sleep(60)
            assert len(await cluster.marked()) == 3

    in_virtual_time(story)


def test_a_store_that_goes_away_right_at_the_start_is_waited_for() -> None:
    """The process was told to be ready a moment ago: a session that is lost then ends nothing."""

    async def story(cluster: AuditedCluster) -> None:
        await some_ledgers(cluster)
        auditor = cluster.auditor()
        reads = ("children", "exists", "get", "get_all", "create", "set")
        answering = {name: getattr(auditor.store, name) for name in reads}

        async def unanswered(path: Any, *_: Any, **__: Any) -> Any:
            raise Unavailable(f"{path}: lost ZooKeeper")

        for name in reads:
            setattr(auditor.store, name, unanswered)
        async with running(auditor):
            await asyncio.sleep(60)
            for name in reads:
                setattr(auditor.store, name, answering[name])
            await auditor.audited()
            await cluster.lose(B[2])
            await cluster.until_marked({2: {B[2]}, 70_000: {B[2]}, 2**40: {B[2]}})

    in_virtual_time(story)


def test_a_cluster_that_is_removed_is_not_marked() -> None:
    async def story(cluster: AuditedCluster) -> None:
        await some_ledgers(cluster)
        auditor = cluster.auditor()
        async with running(auditor):
            await auditor.audited()
            await cluster.lose(*B[:2])
            for path in (PATHS.bookie(B[2]), PATHS.read_only, PATHS.available):
                cluster.service.tree.delete(path, -1)
            cluster.service.publish()
            failures = auditor.metrics.failures_total
            await asyncio.sleep(200)
            assert auditor.metrics.failures_total > failures

    in_virtual_time(story)


# -- AuditorBookieTest: election ---


def test_a_store_that_is_away_at_the_beginning_is_waited_for() -> None:
    async def story(cluster: AuditedCluster) -> None:
        auditor = cluster.auditor()
        create, exists = auditor.store.create, auditor.store.exists

        async def unavailable(*_: Any, **__: Any) -> Any:
            raise Unavailable("nobody answers")

        auditor.store.create = auditor.store.exists = unavailable
        async with running(auditor):
            await asyncio.sleep(100)
            assert auditor.metrics.election_failures_total > 1
            auditor.store.create, auditor.store.exists = create, exists
            await auditor.audited()

    in_virtual_time(story)


def test_the_next_auditor_goes_on_where_the_former_died() -> None:
    async def story(cluster: AuditedCluster) -> None:
        await some_ledgers(cluster)
        first, second = cluster.auditor("first"), cluster.auditor("second")
        async with running(first):
            await first.audited()
            second.start()
            await cluster.until_candidates(2)
            first.kill()
            await cluster.lose(B[1])
            await second.audited()
            assert await current_auditor(cluster.store, LEDGERS_ROOT) == "second"
            await cluster.until_marked({1: {B[1]}, 2: {B[1]}, 70_000: {B[1]}})
            await second.stop()

    in_virtual_time(story)


def test_an_auditor_whose_session_is_over_is_none_any_more() -> None:
    async def story(cluster: AuditedCluster) -> None:
        await some_ledgers(cluster)
        first, second = cluster.auditor("first"), cluster.auditor("second")
        async with running(first):
            await first.audited()
            second.start()
            await cluster.until_candidates(2)
            first.store.expire()
            first.store.tick()
            await second.audited()
            assert (first.metrics.elected, second.metrics.elected) == (0, 1)
            await cluster.lose(B[1])
            await second.audited(2)
            assert first.metrics.audits_total == 1
            assert first.metrics.election_attempts_total == 2
            await second.stop()

    in_virtual_time(story)


@pytest.mark.parametrize("operation", range(0, 60, 1))
def test_an_auditor_that_dies_anywhere_is_followed(operation: int) -> None:
    """Its session ends at each of its changes of metadata, done or not: nothing stays unmarked."""

    async def story(cluster: AuditedCluster) -> None:
        for number in range(20):
            await cluster.ledger(number * 7_000, [B[number % 3], B[(number + 1) % 3]])
        await cluster.lose(B[0])
        first, second = cluster.auditor("first"), cluster.auditor("second")
        die_at(first, operation // 2, is_done=operation % 2 == 1)
        async with running(first):
            await asyncio.sleep(1)
            async with running(second):
                await second_or_first_is_through(cluster, first, second)
                expected = {n * 7_000: {B[0]} for n in range(20) if B[0] in members(n)}
                await cluster.until_marked(expected)

    def members(number: int) -> set[Any]:
        return {B[number % 3], B[(number + 1) % 3]}

    in_virtual_time(story)


async def second_or_first_is_through(
    cluster: AuditedCluster, first: RunningAuditor, second: RunningAuditor
) -> None:
    async def is_through() -> bool:
        return first.metrics.audits_total + second.metrics.audits_total > 0

    await cluster.until(is_through)


def die_at(auditor: RunningAuditor, change: int, *, is_done: bool) -> None:
    """End its session and its process at its nth change."""
    count = 0

    def wrapped(real: Any) -> Any:
        async def call(*args: Any, **options: Any) -> Any:
            nonlocal count
            count += 1
            if count == change + 1:
                if is_done:
                    await real(*args, **options)
                auditor.kill()
                await asyncio.sleep(3_600)
            return await real(*args, **options)

        return call

    for name in ("create", "set", "delete", "multi"):
        setattr(auditor.store, name, wrapped(getattr(auditor.store, name)))


@pytest.mark.parametrize("seed", range(10))
def test_a_store_that_fails_now_and_then_delays_only(seed: int) -> None:
    async def main() -> None:
        cluster = AuditedCluster(seed)
        await cluster.begin()
        for number in range(50):
            await cluster.ledger(number * 997, [B[0], B[1]])
        auditor = cluster.auditor()
        faults = cluster.service.faults
        async with running(auditor):
            await auditor.audited()
            await cluster.lose(B[0])
            faults.lost_request_share = faults.lost_answer_share = faults.late_share = 0.02
            auditor.store.expire()  # it votes anew, and marks, with these faults
            auditor.store.tick()
            await asyncio.sleep(200)
            faults.lost_request_share = faults.lost_answer_share = faults.late_share = 0.0
            assert auditor.metrics.elected
            await cluster.until_marked({number * 997: {B[0]} for number in range(50)})
            names = await cluster.store.children(UNDER.election)
            assert len(names) == 1

    with asyncio.Runner(loop_factory=InstantLoop) as runner:
        runner.run(main())


# -- AuditorPeriodicBookieCheckTest and AuditorPeriodicCheckTest ---


def test_bookies_are_looked_for_though_nothing_changed() -> None:
    async def story(cluster: AuditedCluster) -> None:
        auditor = cluster.auditor(periodic_bookie_check_s=DAY_S, periodic_check_s=0)
        async with running(auditor):
            await auditor.audited()
            await cluster.ledger(5, [B[4], B[0]])  # whose member nobody ever saw
            await asyncio.sleep(DAY_S - 10)
            assert await cluster.marked() == {}
            await asyncio.sleep(20)
            assert await cluster.marked() == {5: {B[4]}}
            assert cluster.check.asked == []

    in_virtual_time(story)


def test_all_ledgers_are_checked_and_what_lacks_is_marked() -> None:
    async def story(cluster: AuditedCluster) -> None:
        await some_ledgers(cluster)
        cluster.check.missing = {1: {B[0]}, 2**40: {B[0], B[2]}}
        await cluster.ledger(3, [B[0], B[1]])
        cluster.check.errors = {2: BookieUnavailable("no answer"), 70_000: CorruptData("no")}
        cluster.check.errors[3] = LedgerNotFound("deleted")
        auditor = cluster.auditor(periodic_check_s=DAY_S)
        async with running(auditor):
            await cluster.until_marked({1: {B[0]}, 2**40: {B[0], B[2]}})
            assert sorted(cluster.check.asked) == [1, 2, 3, 70_000, 2**40]
            assert auditor.metrics.num_ledgers_checked_total == 2
            assert auditor.metrics.check_failures_total == 2
            cluster.check.missing = {2: {B[1]}}
            cluster.check.errors = {}
            await asyncio.sleep(DAY_S - 10)
            assert len(cluster.check.asked) == 5
            await asyncio.sleep(20)
            assert (await cluster.marked())[2] == {B[1]}
            assert auditor.metrics.check_all_ledgers_seconds.count == 2

    in_virtual_time(story)


def test_a_new_auditor_checks_when_the_former_one_would_have() -> None:
    async def story(cluster: AuditedCluster) -> None:
        await some_ledgers(cluster)
        settings = {"periodic_check_s": DAY_S}
        async with running(auditor := cluster.auditor(**settings)):
            await auditor.audited()
            await asyncio.sleep(1)
            assert len(cluster.check.asked) == 4
        noted_ms = await cluster.marks.last_run_ms(ALL_LEDGERS)
        assert noted_ms is not None
        assert cluster.clock.now_ms() - noted_ms < 1_500
        await asyncio.sleep(1_000)
        async with running(cluster.auditor(**settings)):
            await asyncio.sleep(DAY_S - 1_100)
            assert len(cluster.check.asked) == 4
            await asyncio.sleep(200)
            assert len(cluster.check.asked) == 8

    in_virtual_time(story)


@pytest.mark.parametrize("noted", ["the future", "nonsense"])
def test_times_that_cannot_be_are_no_obstacle(noted: str) -> None:
    async def story(cluster: AuditedCluster) -> None:
        await some_ledgers(cluster)
        if noted == "the future":
            ahead_ms = cluster.clock.now_ms() + 10 * DAY_S * 1000
            await cluster.marks.set_last_run_ms(ALL_LEDGERS, ahead_ms)
        else:
            await cluster.store.create(UNDER.check_all_ledgers, b"\xff")
        async with running(cluster.auditor(periodic_check_s=DAY_S)):
            await asyncio.sleep(DAY_S + 10)
            assert len(cluster.check.asked) >= 4

    in_virtual_time(story)


def test_a_check_excuses_who_is_given_time() -> None:
    async def story(cluster: AuditedCluster) -> None:
        await some_ledgers(cluster)
        auditor = cluster.auditor(lost_bookie_recovery_delay_s=DAY_S, periodic_check_s=100)
        async with running(auditor):
            await auditor.audited()
            await cluster.lose(B[0])
            cluster.check.missing = {1: {B[0]}, 70_000: {B[0], B[1]}}
            await asyncio.sleep(500)
            assert await cluster.marked() == {70_000: {B[1]}}

    in_virtual_time(story)


def test_a_check_marks_nothing_while_nobody_is_there() -> None:
    async def story(cluster: AuditedCluster) -> None:
        await some_ledgers(cluster)
        auditor = cluster.auditor(periodic_check_s=SECOND_LOOK_S - 10)
        async with running(auditor):
            await auditor.audited()
            cluster.check.missing = {1: {B[0], B[1]}}
            vanish(cluster)
            await asyncio.sleep(SECOND_LOOK_S - 5)
            assert len(cluster.check.asked) > 4
            assert await cluster.marked() == {}
            for bookie in B[:3]:
                await cluster.back(bookie)
            await asyncio.sleep(100)
            assert await cluster.marked() == {1: {B[0], B[1]}}

    in_virtual_time(story)


def test_disabling_stops_a_check_on_its_way() -> None:
    async def story(cluster: AuditedCluster) -> None:
        for number in range(100):
            await cluster.ledger(number, [B[0], B[1]])
            cluster.check.missing[number] = {B[0]}
        cluster.check.may_answer.clear()
        auditor = cluster.auditor(ledger_checks_at_once=30)
        async with running(auditor):
            await auditor.audited()
            await cluster.check.begun.wait()
            await cluster.marks.disable()
            cluster.check.may_answer.set()
            await asyncio.sleep(1_000)
            assert await cluster.marked() == {}
            assert len(cluster.check.asked) == 30
            assert await cluster.marks.last_run_ms(ALL_LEDGERS) is None
            await cluster.marks.enable()
            await asyncio.sleep(100)
            assert len(await cluster.marked()) == 100
            assert await cluster.marks.last_run_ms(ALL_LEDGERS) is not None

    in_virtual_time(story)


def test_an_idle_auditor_asks_for_nothing() -> None:
    async def story(cluster: AuditedCluster) -> None:
        await some_ledgers(cluster)
        auditor = cluster.auditor()
        count = 0

        def counted(real: Any) -> Any:
            def call(*args: Any, **options: Any) -> Any:
                nonlocal count
                count += 1
                return real(*args, **options)

            return call

        for name in ("get", "exists", "get_all", "children", "create", "set", "sync"):
            setattr(auditor.store, name, counted(getattr(auditor.store, name)))
        async with running(auditor):
            await auditor.audited()
            await asyncio.sleep(10)
            before = count
            await asyncio.sleep(DAY_S - 100)
            assert count == before > 0
            await cluster.back(B[5])
            await asyncio.sleep(10)
            assert before < count < before + 15

    in_virtual_time(story)


def test_a_check_without_the_metadata_is_done_again() -> None:
    async def story(cluster: AuditedCluster) -> None:
        await some_ledgers(cluster)
        cluster.check.errors = {2: Unavailable("the metadata is away")}
        auditor = cluster.auditor(periodic_check_s=DAY_S)
        async with running(auditor):
            await asyncio.sleep(100)
            assert auditor.metrics.failures_total == 2
            assert await cluster.marks.last_run_ms(ALL_LEDGERS) is None
            cluster.check.errors = {}
            await asyncio.sleep(100)
            assert await cluster.marks.last_run_ms(ALL_LEDGERS) is not None

    in_virtual_time(story)


def test_a_check_hurries_no_audit_and_has_a_bound() -> None:
    async def story(cluster: AuditedCluster) -> None:
        for number in range(1_000):
            await cluster.ledger(number, [B[0], B[1]])
        auditor = cluster.auditor(ledger_checks_at_once=7)
        async with running(auditor):
            await cluster.check.begun.wait()
            await cluster.lose(B[0])
            await cluster.until_some_are_marked()
            assert len(cluster.check.asked) < 1_000  # the audit did not wait for the check
            await asyncio.sleep(10)
            assert sorted(cluster.check.asked) == list(range(1_000))
            assert cluster.check.at_once_max == 7

    in_virtual_time(story)


def test_memory_and_round_trips_of_an_audit_are_bounded() -> None:
    async def story(cluster: AuditedCluster) -> None:
        for number in range(1_000):
            await cluster.ledger(number, [B[0], B[1]])
        auditor = cluster.auditor(periodic_check_s=0)
        reads: list[int] = []
        writing = writing_max = 0
        get_all, create = auditor.store.get_all, auditor.store.create

        async def counted(paths: Any) -> Any:
            reads.append(len(paths))
            return await get_all(paths)

        async def bounded(*args: Any, **options: Any) -> Any:
            nonlocal writing, writing_max
            writing += 1
            writing_max = max(writing_max, writing)
            try:
                return await create(*args, **options)
            finally:
                writing -= 1

        await cluster.lose(B[0])
        auditor.store.get_all, auditor.store.create = counted, bounded
        async with running(auditor):
            await auditor.audited()
            assert len(await cluster.marked()) == 1_000
            assert max(reads) == 128
            assert len(reads) == 8
            assert writing_max == 64

    in_virtual_time(story)


def test_metrics_have_bookkeepers_prefix() -> None:
    async def story(cluster: AuditedCluster) -> None:
        auditor = cluster.auditor()
        metrics = Metrics()
        metrics.register("replication_auditor", auditor.metrics)
        async with running(auditor):
            await auditor.audited()
            values = metrics.snapshot()
            assert values["replication_auditor_elected"] == 1
            assert values["replication_auditor_election_attempts_total"] == 1
            assert values["replication_auditor_audit_bookies_seconds_count"] == 1

    in_virtual_time(story)
