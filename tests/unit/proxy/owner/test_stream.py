"""One stream of a proxy: claimed by its first request, written in order, given up when it fails."""

import asyncio
from collections.abc import Callable, Coroutine
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tailrace.core.errors import OwnershipAcquireFailed
from tailrace.protocol.bookkeeper.messages import AddRequest, Request
from tailrace.protocol.bookkeeper.messages import StatusCode as BookieCode
from tailrace.protocol.distributedlog.record_set import pack_record_set
from tailrace.proxy.owner.codes import StatusCode
from tests.unit.core.ledger.fake_bookie import no_fault
from tests.unit.core.log.world import Listener, read_all, settle
from tests.unit.proxy.owner.world import (
    Proxy,
    ProxyWorld,
    codes,
    new_stream,
    payloads_of,
)
from tests.unit.proxy.owner.world import run as run_in_virtual_time

if TYPE_CHECKING:
    from tailrace.proxy.owner.operations import Answer

Run = Callable[[Callable[[ProxyWorld], Coroutine[Any, Any, None]]], None]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return lambda story: run_in_virtual_time(tmp_path, story)


def refuse_adds(request: Request) -> BookieCode | None:
    return BookieCode.EIO if isinstance(request, AddRequest) else None


def test_the_first_write_claims_the_stream(run: Run) -> None:
    async def story(world: ProxyWorld) -> None:
        await new_stream(world)
        proxy = Proxy(world, 1)
        answer = await proxy.streams.write("s", b"a")
        assert answer.code is StatusCode.SUCCESS
        assert answer.dlsn is not None
        assert proxy.streams.owned == ["s"]
        assert proxy.events.seen == [("acquired", "s")]
        assert proxy.streams.owner_of("s").location == "1;1;host:4001"
        await proxy.streams.close()
        assert proxy.events.seen == [("acquired", "s"), ("released", "s")]
        assert await payloads_of(world) == [b"a"]

    run(story)


def test_what_waits_for_the_claim_is_written_in_order(run: Run) -> None:
    async def story(world: ProxyWorld) -> None:
        await new_stream(world)
        proxy = Proxy(world, 1)
        done: list[asyncio.Future[Answer]] = []
        writes = [proxy.streams.write("s", b"%d" % number) for number in range(20)]
        for write in writes:
            write.add_done_callback(done.append)
        answers = [await write for write in writes]
        await settle()
        positions = [answer.dlsn for answer in answers if answer.dlsn is not None]
        assert positions == sorted(set(positions))
        assert len(positions) == 20
        assert done == writes
        assert proxy.metrics.claims_total == 1
        await proxy.streams.close()
        assert await payloads_of(world) == [b"%d" % number for number in range(20)]

    run(story)


def test_the_queue_of_a_stream_that_is_claimed_is_bounded(run: Run) -> None:
    async def story(world: ProxyWorld) -> None:
        await new_stream(world)
        proxy = Proxy(world, 1, queued_operations_max=3, queued_bytes_max=100)
        writes = [proxy.streams.write("s", b"x" * 40) for _ in range(4)]
        answers = [await write for write in writes]
        full = StatusCode.OVER_CAPACITY
        assert codes(answers) == [StatusCode.SUCCESS, StatusCode.SUCCESS, full, full]
        assert proxy.metrics.queue_full_total == 2
        await proxy.streams.close()
        assert len(await payloads_of(world)) == 2

    run(story)


def test_a_write_whose_wait_is_cancelled_is_written(run: Run) -> None:
    async def story(world: ProxyWorld) -> None:
        await new_stream(world)
        proxy = Proxy(world, 1)
        first, second = proxy.streams.write("s", b"a"), proxy.streams.write("s", b"b")
        first.cancel()
        assert (await second).code is StatusCode.SUCCESS
        await proxy.streams.close()
        assert await payloads_of(world) == [b"a", b"b"]

    run(story)


def test_txids_are_the_time_and_never_fall(run: Run) -> None:
    async def story(world: ProxyWorld) -> None:
        log = await new_stream(world)
        proxy = Proxy(world, 1)
        await proxy.streams.heartbeat("s")
        for payload, now_ms in ((b"a", 5_000), (b"b", 5_000), (b"c", 4_000), (b"d", 6_000)):
            world.clock.now_ms = lambda now_ms=now_ms: now_ms  # type: ignore[misc]
            await proxy.streams.write("s", payload)
        await proxy.streams.close()
        assert [record.txid for _, record in await read_all(log)] == [5_000, 5_000, 5_000, 6_000]

    run(story)


def test_the_next_owner_goes_on_behind_the_last_txid(run: Run) -> None:
    async def story(world: ProxyWorld) -> None:
        log = await new_stream(world)
        writer = await log.open_writer(Listener())
        future_ms = world.clock.now_ms() + 3_600_000
        writer.append(future_ms, (b"a",), 1)
        await writer.close()
        proxy = Proxy(world, 1)
        assert (await proxy.streams.write("s", b"b")).code is StatusCode.SUCCESS
        await proxy.streams.close()
        assert [record.txid for _, record in await read_all(log)] == [future_ms, future_ms]

    run(story)


def test_a_bulk_has_an_answer_for_each_record(run: Run) -> None:
    async def story(world: ProxyWorld) -> None:
        await new_stream(world)
        proxy = Proxy(world, 1, log={"record_bytes_max": 1000, "waiting_bytes_max": 100_000})
        answer = await proxy.streams.write_bulk("s", [b"a", b"b"])
        assert answer.code is StatusCode.SUCCESS
        assert codes([*answer.each]) == [StatusCode.SUCCESS, StatusCode.SUCCESS]
        assert [each.dlsn.slot for each in answer.each if each.dlsn is not None] == [0, 1]
        answer = await proxy.streams.write_bulk("s", [b"c", b"x" * 1001, b"d"])
        assert codes([*answer.each]) == [
            StatusCode.SUCCESS,
            StatusCode.TOO_LARGE_RECORD,
            StatusCode.WRITE_CANCELLED_EXCEPTION,
        ]
        assert (await proxy.streams.write_bulk("s", [])).code is StatusCode.SUCCESS
        assert (await proxy.streams.write("s", b"x" * 1001)).code is StatusCode.TOO_LARGE_RECORD
        assert (await proxy.streams.write("s", b"e")).code is StatusCode.SUCCESS
        await proxy.streams.close()
        assert await payloads_of(world) == [b"a", b"b", b"c", b"e"]

    run(story)


def test_a_record_set_is_written_as_one(run: Run) -> None:
    async def story(world: ProxyWorld) -> None:
        await new_stream(world)
        proxy = Proxy(world, 1)
        values = pack_record_set([b"a", b"b"])
        answer = await proxy.streams.write("s", values, is_record_set=True)
        assert answer.code is StatusCode.SUCCESS
        for bad in (values[:-1], pack_record_set([])):
            answer = await proxy.streams.write("s", bad, is_record_set=True)
            assert answer.code is StatusCode.REQUEST_DENIED
        assert (await proxy.streams.write("s", b"c")).code is StatusCode.SUCCESS
        await proxy.streams.close()
        assert await payloads_of(world) == [b"a", b"b", b"c"]

    run(story)


def test_a_truncation_gives_up_what_lies_before(run: Run) -> None:
    async def story(world: ProxyWorld) -> None:
        await new_stream(world)
        proxy = Proxy(world, 1)
        answers = [await proxy.streams.write("s", payload) for payload in (b"a", b"b", b"c")]
        assert answers[1].dlsn is not None
        assert (await proxy.streams.truncate("s", answers[1].dlsn)).code is StatusCode.SUCCESS
        await proxy.streams.close()
        assert await payloads_of(world) == [b"b", b"c"]

    run(story)


def test_the_first_heartbeat_of_an_idle_stream_writes_a_control_record(run: Run) -> None:
    async def story(world: ProxyWorld) -> None:
        log = await new_stream(world)
        proxy = Proxy(world, 1)
        numbers = proxy.log_metrics
        assert (await proxy.streams.heartbeat("s")).code is StatusCode.SUCCESS
        assert proxy.streams.owned == ["s"]
        assert numbers.control_records_total == 1
        await proxy.streams.heartbeat("s")
        assert numbers.control_records_total == 1
        await proxy.streams.heartbeat("s", to_readers=True)
        assert numbers.control_records_total == 2
        await proxy.streams.write("s", b"a")
        await proxy.streams.close()
        assert [bytes(record.payload) for _, record in await read_all(log)] == [b"a"]

    run(story)


def test_a_heartbeat_of_a_stream_that_was_written_writes_nothing(run: Run) -> None:
    async def story(world: ProxyWorld) -> None:
        await new_stream(world)
        proxy = Proxy(world, 1)
        await proxy.streams.write("s", b"a")
        before = proxy.log_metrics.control_records_total
        assert (await proxy.streams.heartbeat("s")).code is StatusCode.SUCCESS
        assert proxy.log_metrics.control_records_total == before
        await proxy.streams.close()

    run(story)


@pytest.mark.parametrize(
    ("name", "code"),
    [("missing", StatusCode.LOG_NOT_FOUND), ("/bad//name", StatusCode.INVALID_STREAM_NAME)],
)
def test_a_stream_that_cannot_be_claimed_says_why(run: Run, name: str, code: StatusCode) -> None:
    async def story(world: ProxyWorld) -> None:
        proxy = Proxy(world, 1)
        answers = [proxy.streams.write(name, b"a"), proxy.streams.heartbeat(name)]
        assert codes([await each for each in answers]) == [code, code]
        await settle()
        assert proxy.metrics.streams_cached == 0
        assert proxy.events.seen == []

    run(story)


def test_a_sealed_stream_takes_no_record(run: Run) -> None:
    async def story(world: ProxyWorld) -> None:
        log = await new_stream(world)
        writer = await log.open_writer(Listener())
        await writer.mark_end_of_stream()
        await writer.close()
        proxy = Proxy(world, 1)
        assert (await proxy.streams.write("s", b"a")).code is StatusCode.END_OF_STREAM

    run(story)


def test_a_writer_that_fails_ends_the_stream_and_a_later_request_claims_again(run: Run) -> None:
    async def story(world: ProxyWorld) -> None:
        await new_stream(world)
        proxy = Proxy(world, 1)
        assert (await proxy.streams.write("s", b"a")).code is StatusCode.SUCCESS
        world.bookie.fault = refuse_adds
        lost = await proxy.streams.write("s", b"b")
        assert lost.code is StatusCode.BK_TRANSMIT_ERROR
        meanwhile = await proxy.streams.write("s", b"c")
        assert meanwhile.code is StatusCode.STREAM_UNAVAILABLE
        world.bookie.fault = no_fault
        await asyncio.sleep(0.1)
        assert proxy.streams.owned == []
        assert (await proxy.streams.write("s", b"d")).code is StatusCode.SUCCESS
        assert proxy.metrics.claims_total == 2
        assert proxy.metrics.failed_streams_total == 1
        await proxy.streams.close()
        assert await payloads_of(world) == [b"a", b"d"]

    run(story)


def test_claims_of_a_stream_that_keeps_failing_have_a_second_between_them(run: Run) -> None:
    async def story(world: ProxyWorld) -> None:
        await new_stream(world)
        proxy = Proxy(world, 1)
        world.bookie.fault = refuse_adds
        claimed_s: list[float] = []
        for _ in range(40):
            before = proxy.metrics.claims_total
            await proxy.streams.write("s", b"a")
            if proxy.metrics.claims_total > before:
                claimed_s.append(asyncio.get_running_loop().time())
            await asyncio.sleep(0.1)
        assert len(claimed_s) >= 3
        pauses = [after - before for before, after in pairwise(claimed_s)]
        assert min(pauses) > 0.9
        world.bookie.fault = no_fault
        assert (await proxy.streams.write("s", b"b")).code is StatusCode.SUCCESS
        await proxy.streams.close()

    run(story)


def test_an_operation_that_takes_too_long_puts_its_stream_on_probation(run: Run) -> None:
    async def story(world: ProxyWorld) -> None:
        await new_stream(world)
        proxy = Proxy(world, 1, service_timeout_ms=5_000)
        assert (await proxy.streams.write("s", b"a")).code is StatusCode.SUCCESS
        world.bookie.hold()
        stuck = [proxy.streams.write("s", b"b"), proxy.streams.write("s", b"c")]
        await asyncio.sleep(4)
        assert not any(each.done() for each in stuck)
        unavailable = StatusCode.STREAM_UNAVAILABLE
        assert codes([await each for each in stuck]) == [unavailable, unavailable]
        assert proxy.metrics.service_timeouts_total == 1
        world.bookie.release()
        await asyncio.sleep(290)
        assert proxy.streams.owned == []
        assert (await proxy.streams.write("s", b"d")).code is unavailable
        assert proxy.metrics.claims_total == 1
        await asyncio.sleep(20)
        assert (await proxy.streams.write("s", b"e")).code is StatusCode.SUCCESS
        await proxy.streams.close()
        found = await payloads_of(world)
        assert (found[0], found[-1]) == (b"a", b"e")  # what timed out may be there

    run(story)


def test_another_proxy_may_have_a_stream_that_is_on_probation(run: Run) -> None:
    async def story(world: ProxyWorld) -> None:
        await new_stream(world)
        one, two = Proxy(world, 1, service_timeout_ms=5_000), Proxy(world, 2)
        await one.streams.write("s", b"a")
        world.bookie.hold()
        assert (await one.streams.write("s", b"b")).code is StatusCode.STREAM_UNAVAILABLE
        world.bookie.release()
        await asyncio.sleep(1)
        assert (await two.streams.write("s", b"c")).code is StatusCode.SUCCESS
        await two.streams.close()

    run(story)


def test_a_claim_that_takes_longer_than_an_operation_may_is_no_loop(run: Run) -> None:
    async def story(world: ProxyWorld) -> None:
        await new_stream(world)
        proxy = Proxy(world, 1, service_timeout_ms=500)
        world.server.faults.hold_writes = True
        waiting = proxy.streams.write("s", b"a")
        await asyncio.sleep(30)
        world.server.release_writes()
        assert (await waiting).code is StatusCode.SUCCESS
        assert proxy.metrics.claims_total == 1
        assert proxy.metrics.service_timeouts_total == 0
        world.bookie.hold()  # from then on an operation has its own time
        assert (await proxy.streams.write("s", b"b")).code is StatusCode.STREAM_UNAVAILABLE
        assert proxy.metrics.service_timeouts_total == 1
        world.bookie.release()
        await proxy.streams.close()

    run(story)


def test_what_waited_for_a_long_claim_has_the_time_of_an_operation_then(run: Run) -> None:
    async def story(world: ProxyWorld) -> None:
        await new_stream(world)
        proxy = Proxy(world, 1, service_timeout_ms=5_000)
        world.server.faults.hold_writes = True
        waiting = proxy.streams.write("s", b"a")
        await asyncio.sleep(30)
        world.bookie.hold()
        world.server.release_writes()
        await asyncio.sleep(4)
        assert proxy.streams.owned == ["s"]
        assert not waiting.done()
        assert (await waiting).code is StatusCode.STREAM_UNAVAILABLE
        assert proxy.metrics.service_timeouts_total == 1
        world.bookie.release()
        await proxy.streams.close()

    run(story)


@pytest.mark.parametrize("service_timeout_ms", [0, 5_000])
def test_a_claim_has_a_time_of_its_own_and_the_next_one_may_begin_at_once(
    run: Run, service_timeout_ms: int
) -> None:
    async def story(world: ProxyWorld) -> None:
        await new_stream(world)
        proxy = Proxy(world, 1, service_timeout_ms=service_timeout_ms, claim_timeout_ms=20_000)
        world.server.faults.hold_writes = True
        waiting = [proxy.streams.write("s", b"a"), proxy.streams.heartbeat("s")]
        await asyncio.sleep(19)
        assert not any(each.done() for each in waiting)
        unavailable = StatusCode.STREAM_UNAVAILABLE
        assert codes([await each for each in waiting]) == [unavailable, unavailable]
        assert proxy.metrics.claim_timeouts_total == 1
        assert proxy.metrics.service_timeouts_total == 0
        world.server.release_writes()
        await asyncio.sleep(1)
        assert (await proxy.streams.write("s", b"b")).code is StatusCode.SUCCESS
        await proxy.streams.close()
        assert await payloads_of(world) == [b"b"]

    run(story)


def test_a_stream_that_answers_in_time_stays(run: Run) -> None:
    async def story(world: ProxyWorld) -> None:
        await new_stream(world)
        proxy = Proxy(world, 1, service_timeout_ms=5_000)
        for _ in range(10):
            assert (await proxy.streams.write("s", b"a")).code is StatusCode.SUCCESS
            await asyncio.sleep(3)
        assert proxy.metrics.claims_total == 1
        await proxy.streams.close()

    run(story)


def test_a_release_during_the_claim_answers_what_waits(run: Run) -> None:
    async def story(world: ProxyWorld) -> None:
        await new_stream(world)
        proxy = Proxy(world, 1)
        write = proxy.streams.write("s", b"a")
        assert (await proxy.streams.release("s")).code is StatusCode.SUCCESS
        assert (await write).code is StatusCode.STREAM_UNAVAILABLE
        assert await world.store.children("/distributedlog/tailrace/s/<default>/lock") == []
        assert (await proxy.streams.write("s", b"b")).code is StatusCode.SUCCESS
        await proxy.streams.close()
        assert await payloads_of(world) == [b"b"]

    run(story)


def test_a_record_on_its_way_when_the_lock_is_anothers_is_not_answered_as_unwritten(
    run: Run,
) -> None:
    async def story(world: ProxyWorld) -> None:
        await new_stream(world)
        proxy = Proxy(world, 1)
        await proxy.streams.write("s", b"a")
        log = await proxy.namespace.open_log("s")
        assert log.writer is not None
        world.bookie.hold()
        sent, bulk = proxy.streams.write("s", b"b"), proxy.streams.write_bulk("s", [b"c", b"d"])
        await settle()
        log.writer.fail(OwnershipAcquireFailed("lost", current_owner="1;2;host:4002"))
        later = proxy.streams.write("s", b"e")
        locking = StatusCode.LOCKING_EXCEPTION
        assert codes([await sent, await bulk]) == [locking, locking]
        answer = await later
        assert (answer.code, answer.location) == (StatusCode.FOUND, "1;2;host:4002")
        world.bookie.release()
        await proxy.streams.close()

    run(story)


def test_a_writer_that_is_stopped_without_a_word_ends_the_stream(run: Run) -> None:
    async def story(world: ProxyWorld) -> None:
        await new_stream(world)
        proxy = Proxy(world, 1)
        for is_bulk in (False, True):
            await proxy.streams.write("s", b"a")
            await proxy.namespace.close_log("s")
            streams = proxy.streams
            lost = streams.write_bulk("s", [b"x"]) if is_bulk else streams.write("s", b"x")
            assert (await lost).code is StatusCode.STREAM_UNAVAILABLE
            await asyncio.sleep(0.1)
            assert proxy.streams.owned == []
        assert (await proxy.streams.write("s", b"b")).code is StatusCode.SUCCESS
        await proxy.streams.close()
        assert await payloads_of(world) == [b"a", b"a", b"b"]

    run(story)


def test_a_fault_of_ours_ends_the_stream_and_answers_what_waits(run: Run) -> None:
    async def story(world: ProxyWorld) -> None:
        await new_stream(world)
        proxy = Proxy(world, 1)
        open_log = proxy.namespace.open_log

        async def broken(*_: Any) -> Any:
            raise RuntimeError("a bug")

        proxy.namespace.open_log = broken  # type: ignore[method-assign]
        asked = [proxy.streams.write("s", b"a"), proxy.streams.heartbeat("s")]
        assert set(codes([await each for each in asked])) == {StatusCode.UNEXPECTED}
        proxy.namespace.open_log = open_log  # type: ignore[method-assign]
        await asyncio.sleep(0.1)
        assert (await proxy.streams.write("s", b"b")).code is StatusCode.SUCCESS
        await proxy.streams.close()
        assert await payloads_of(world) == [b"b"]

    run(story)


def test_a_truncation_that_is_under_way_when_the_stream_fails_is_answered(run: Run) -> None:
    async def story(world: ProxyWorld) -> None:
        await new_stream(world)
        proxy = Proxy(world, 1, service_timeout_ms=5_000)
        written = await proxy.streams.write("s", b"a")
        assert written.dlsn is not None
        world.server.faults.hold_writes = True
        truncation = proxy.streams.truncate("s", written.dlsn.next_slot())
        assert (await truncation).code is StatusCode.STREAM_UNAVAILABLE
        world.server.release_writes()
        await proxy.streams.close()
        assert proxy.streams.owned == []

    run(story)
