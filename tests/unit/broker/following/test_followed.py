"""A partition that another broker owns, as a follower sees it: over real logs, two processes."""

from dataclasses import replace
from pathlib import Path

from tailrace.broker.partition.appends import AppendResult
from tailrace.broker.partition.partition_log import PartitionLog
from tailrace.broker.partition.trimming import delete_records
from tailrace.core.runtime.task_health import task_health
from tailrace.protocol.bookkeeper.messages import ReadRequest, Request, StatusCode
from tailrace.protocol.errors import ErrorCode as E
from tailrace.protocol.records.batch import read_header
from tests.unit.broker.fakes import batch
from tests.unit.broker.following.world import LOGS, PARTITION, Pair, reached, run_pair
from tests.unit.broker.loops import until
from tests.unit.broker.partition.transaction_support import end, write
from tests.unit.core.ledger.fake_bookie import no_fault
from tests.unit.core.log.test_rewrite import rewritten
from tests.unit.core.log.world import settle


async def filled(log: PartitionLog, count: int = 3) -> None:
    for _ in range(count):
        assert isinstance(await log.append(batch(2)), AppendResult)


def test_it_begins_with_what_is_there_and_follows_the_tail(tmp_path: Path) -> None:
    async def story(pair: Pair) -> None:
        log = await pair.own()
        await filled(log)
        await log.roll()
        await filled(log)
        followed = await pair.follow()
        await reached(followed, log)
        assert (followed.log_start_offset, followed.last_stable_offset) == (0, 12)
        assert followed.leader_epoch == log.leader_epoch
        for offset in (0, 3, 7, 11):
            (first, *_) = await followed.read(offset, 1)
            assert read_header(first).base_offset == offset // 2 * 2
        await filled(log)
        await log.roll()
        await filled(log)
        await reached(followed, log)
        cached = followed.read_tail(12, 1 << 20, at_least_one=True)
        assert cached is not None
        assert [read_header(each).base_offset for each in cached.parts] == [12, 14, 16, 18, 20, 22]

    run_pair(tmp_path, story)


def test_nothing_is_shown_that_the_owner_did_not_confirm(tmp_path: Path) -> None:
    async def story(pair: Pair) -> None:
        log = await pair.own()
        await filled(log, 1)
        followed = await pair.follow()
        await reached(followed, log)
        bookie = pair.logs.bookie
        bookie.lost_answer = lambda _: StatusCode.LOCAL_TIMEOUT
        assert await log.append(batch(2)) is E.NOT_LEADER_OR_FOLLOWER
        bookie.lost_answer = no_fault
        segment = followed.log.segments.last
        assert segment is not None
        assert bookie.ledgers[segment.ledger_id].last_entry > followed.state.indexes[
            segment.lssn
        ].entry_before(1)  # it is there, but its fate is open
        await settle()
        assert followed.high_watermark == 2
        again = await pair.own()
        assert again.high_watermark == 4
        await filled(again, 1)
        await reached(followed, again)

    run_pair(tmp_path, story)


def test_open_and_ended_transactions_hold_the_last_stable_offset_as_at_the_owner(
    tmp_path: Path,
) -> None:
    async def story(pair: Pair) -> None:
        log = await pair.own()
        await write(log, 7, 0)  # offset 0
        await filled(log, 1)  # 1, 2
        early = await pair.follow()
        await reached(early, log)
        assert early.last_stable_offset == log.last_stable_offset == 0
        await write(log, 8, 0)  # 3
        await end(log, 7, commit=False)  # 4
        await reached(early, log)
        assert early.last_stable_offset == log.last_stable_offset == 3
        await log.roll()
        await pair.followed.let_go(early.partition)
        late = await pair.follow()
        await reached(late, log)
        assert late.last_stable_offset == log.last_stable_offset == 3
        assert await late.aborted_between(0, 2) == await log.aborted_between(0, 2) == [(7, 0, 4, 3)]
        await end(log, 8, commit=True)  # 5
        await reached(late, log)
        assert late.last_stable_offset == 6
        assert await late.aborted_between(0, 5) == await log.aborted_between(0, 5)

    run_pair(tmp_path, story)


def test_another_owner_is_followed_and_known_by_its_epoch(tmp_path: Path) -> None:
    async def story(pair: Pair) -> None:
        first = await pair.own()
        await filled(first, 1)
        followed = await pair.follow()
        await reached(followed, first)
        before = followed.leader_epoch
        second = await pair.own()
        assert second.leader_epoch > before
        pair.clock.advance_ms(1000)
        assert followed.check_epoch(second.leader_epoch) is E.UNKNOWN_LEADER_EPOCH
        await until(lambda: followed.leader_epoch == second.leader_epoch)  # it asked
        assert followed.check_epoch(second.leader_epoch) is E.NONE
        assert followed.check_epoch(before) is E.FENCED_LEADER_EPOCH
        await filled(second, 1)
        await reached(followed, second)
        assert followed.end_of_epoch(before) == second.end_of_epoch(before) == (before, 2)
        assert followed.failure is None

    run_pair(tmp_path, story)


def test_an_owner_that_does_not_answer_is_known_by_what_it_wrote(tmp_path: Path) -> None:
    async def story(pair: Pair) -> None:
        log = await pair.own()
        await filled(log, 1)
        pair.says.log = None
        followed = await pair.follow()
        await reached(followed, log)
        assert followed.leader_epoch == log.leader_epoch
        assert await followed.is_there(1000)  # in doubt
        pair.says.log = log
        asked = pair.says.asked
        assert await followed.is_there(3)  # it was asked a moment ago
        pair.clock.advance_ms(1000)
        assert await followed.is_there(2)  # seen here
        assert pair.says.asked == asked
        assert not await followed.is_there(3)
        assert pair.says.asked == asked + 1

    run_pair(tmp_path, story)


def test_the_log_start_moves_with_the_owners(tmp_path: Path) -> None:
    async def story(pair: Pair) -> None:
        log = await pair.own()
        await filled(log)
        await log.roll()
        await filled(log)
        followed = await pair.follow()
        await reached(followed, log)
        await delete_records(log, 8)
        await until(lambda: followed.log_start_offset == 8)
        await filled(log)
        await delete_records(log, 12)
        await until(lambda: followed.log_start_offset == 12)
        await reached(followed, log)
        (first, *_) = await followed.read(12, 1)
        assert read_header(first).base_offset == 12

    run_pair(tmp_path, story)


def test_one_that_lost_its_log_says_so_and_is_opened_again(tmp_path: Path) -> None:
    async def story(pair: Pair) -> None:
        log = await pair.own()
        await filled(log, 1)
        followed = await pair.follow()
        await reached(followed, log)
        followed._fail(RuntimeError("planted"))
        assert followed.failure is E.NOT_LEADER_OR_FOLLOWER
        await until(lambda: pair.followed.get(followed.partition) is None)
        refused = await pair.followed.opening(*followed.partition)
        assert refused is E.NOT_LEADER_OR_FOLLOWER  # not at once
        pair.clock.advance_ms(1000)
        again = await pair.follow()
        assert again is not followed
        await reached(again, log)

    run_pair(tmp_path, story)


def test_what_is_known_of_a_ledger_goes_with_it(tmp_path: Path) -> None:
    async def story(pair: Pair) -> None:
        log = await pair.own()
        followed = await pair.follow()
        await filled(log)
        await log.roll()
        await filled(log)
        await reached(followed, log)
        first, second = followed.state.indexes
        assert followed.segments.written_here(first) is not None
        await rewritten(log.log, [first], lambda _txid: True)
        await followed.log.refresh(is_forced=True)
        assert followed.segments.written_here(first) is None
        assert followed.segments.written_here(second) is not None
        cached = followed.read_tail(0, 1 << 20, at_least_one=True)
        assert cached is None
        (batch_, *_) = (await followed.read_log(0, 1, at_least_one=True)).parts
        assert read_header(batch_).base_offset == 0

    run_pair(tmp_path, story)


def test_it_reads_on_once_bookies_answer_again(tmp_path: Path) -> None:
    async def story(pair: Pair) -> None:
        log = await pair.own()
        await filled(log, 1)
        followed = await pair.follow()
        await reached(followed, log)
        pair.logs.bookie.fault = reads_fail
        await filled(log, 1)
        await until(lambda: task_health().record("followed.tail").numbers.failing == 1)
        assert (followed.failure, followed.high_watermark) == (None, 2)
        pair.logs.bookie.fault = no_fault
        await reached(followed, log)

    # who waits at the tail hears of a poll that failed when its own time is over
    run_pair(tmp_path, story, logs=replace(LOGS, lac_poll_ms=20))


def test_an_entry_that_no_copy_gives_ends_it(tmp_path: Path) -> None:
    async def story(pair: Pair) -> None:
        log = await pair.own()
        await filled(log, 2)
        segment = log.log.segments.last
        assert segment is not None
        del pair.logs.bookie.ledgers[segment.ledger_id].entries[1]
        refused = await pair.followed.opening(*PARTITION)
        if not isinstance(refused, E):
            await until(lambda: refused.failure is E.NOT_LEADER_OR_FOLLOWER)
        assert pair.followed.metrics.failures_total == 1

    run_pair(tmp_path, story)


def reads_fail(request: Request) -> StatusCode | None:
    return StatusCode.LOCAL_TIMEOUT if isinstance(request, ReadRequest) else None
