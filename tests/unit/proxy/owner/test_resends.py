"""A resend of a numbered record: written once, whoever owns the stream, and answered the same."""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tailrace.core.errors import OwnershipLost
from tailrace.core.log.config import RECORD_BYTES_MAX
from tailrace.core.log.log import Log
from tailrace.protocol.distributedlog.record_set import pack_record_set
from tailrace.proxy.owner.codes import StatusCode
from tailrace.proxy.owner.operations import WriterSequence
from tests.unit.core.ledger.fake_bookie import no_fault
from tests.unit.core.log.world import settle
from tests.unit.proxy.owner.test_stream import refuse_adds
from tests.unit.proxy.owner.world import Proxy, ProxyWorld, codes, new_stream, payloads_of
from tests.unit.proxy.owner.world import run as run_in_virtual_time

if TYPE_CHECKING:
    from tailrace.proxy.owner.operations import Answer

Run = Callable[[Callable[[ProxyWorld], Coroutine[Any, Any, None]]], None]

SUCCESS, GAP = StatusCode.SUCCESS, StatusCode.TRANSACTION_OUT_OF_ORDER
FULL = StatusCode.OVER_CAPACITY
DAY_MS = 86_400_000


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return lambda story: run_in_virtual_time(tmp_path, story)


def w(sequence: int, writer_id: bytes = b"w") -> WriterSequence:
    return WriterSequence(writer_id, sequence)


def test_a_resend_gets_the_first_answer_and_is_not_written(run: Run) -> None:
    async def story(world: ProxyWorld) -> None:
        await new_stream(world)
        streams = Proxy(world, 1).streams
        first = await streams.write("s", b"a", writer=w(0))
        assert first.code is SUCCESS
        assert first.dlsn is not None
        assert await streams.write("s", b"a", writer=w(0)) == first
        assert (await streams.write("s", b"b", writer=w(1))).code is SUCCESS
        assert await streams.write("s", b"a", writer=w(0)) == first
        await streams.close()
        assert await payloads_of(world) == [b"a", b"b"]

    run(story)


def test_a_resend_of_what_is_on_its_way_waits_for_it(run: Run) -> None:
    async def story(world: ProxyWorld) -> None:
        await new_stream(world)
        proxy = Proxy(world, 1)
        await proxy.streams.heartbeat("s")
        world.bookie.hold()
        writes = [proxy.streams.write("s", b"a", writer=w(0)) for _ in range(3)]
        writes.append(proxy.streams.write_bulk("s", [b"a", b"b"], writer=w(0)))
        await settle()
        assert not any(write.done() for write in writes)
        world.bookie.release()
        first, second, third, bulk = [await write for write in writes]
        assert first.code is SUCCESS
        assert first == second == third == bulk.each[0]
        assert proxy.metrics.resent_records_total == 3
        await proxy.streams.close()
        assert await payloads_of(world) == [b"a", b"b"]

    run(story)


def test_numbers_that_leave_a_gap_are_refused_and_nothing_is_written(run: Run) -> None:
    async def story(world: ProxyWorld) -> None:
        await new_stream(world)
        proxy = Proxy(world, 1)
        streams = proxy.streams
        assert (await streams.write("s", b"x", writer=w(1))).code is GAP
        assert (await streams.write("s", b"a", writer=w(0))).code is SUCCESS
        assert (await streams.write("s", b"x", writer=w(2))).code is GAP
        bulk = await streams.write_bulk("s", [b"x", b"x"], writer=w(3))
        assert (bulk.code, bulk.each) == (GAP, ())
        assert (await streams.write("s", b"x", writer=w(1, b"other"))).code is GAP
        assert proxy.metrics.out_of_order_total == 4
        await streams.close()
        assert await payloads_of(world) == [b"a"]

    run(story)


@pytest.mark.parametrize(
    "writer", [w(0, b""), w(0, b"i" * 65), w(-1), w(2**63 - 1), w(2**63)], ids=repr
)
def test_a_writer_that_is_not_valid_is_refused(run: Run, writer: WriterSequence) -> None:
    async def story(world: ProxyWorld) -> None:
        await new_stream(world)
        streams = Proxy(world, 1).streams
        denied = StatusCode.REQUEST_DENIED
        assert (await streams.write("s", b"x", writer=writer)).code is denied
        assert (await streams.write_bulk("s", [b"x"], writer=writer)).code is denied
        assert streams.owned == []

    run(story)


def test_the_next_owner_knows_the_numbers(run: Run) -> None:
    async def story(world: ProxyWorld) -> None:
        await new_stream(world)
        one, two = Proxy(world, 1), Proxy(world, 2)
        first = await one.streams.write_bulk("s", [b"a", b"b"], writer=w(0))
        other = await one.streams.write("s", b"c", writer=w(0, b"other"))
        await one.streams.release("s")
        assert await two.streams.write_bulk("s", [b"a", b"b"], writer=w(0)) == first
        assert await two.streams.write("s", b"c", writer=w(0, b"other")) == other
        assert (await two.streams.write("s", b"x", writer=w(3))).code is GAP
        assert (await two.streams.write("s", b"d", writer=w(2))).code is SUCCESS
        await two.streams.close()
        assert await payloads_of(world) == [b"a", b"b", b"c", b"d"]

    run(story)


def test_an_owner_that_was_fenced_leaves_its_numbers(run: Run) -> None:
    async def story(world: ProxyWorld) -> None:
        await new_stream(world)
        one, two = Proxy(world, 1), Proxy(world, 2)
        first = await one.streams.write_bulk("s", [b"a", b"b", b"c"], writer=w(0))
        one.store.expire()
        again = await two.streams.write_bulk("s", [b"b", b"c", b"d"], writer=w(1))
        assert again.each[:2] == first.each[1:]
        late = await one.streams.write_bulk("s", [b"d", b"e"], writer=w(3))
        assert all(answer.code is not SUCCESS for answer in late.each or (late,))
        await two.streams.close()
        assert await payloads_of(world) == [b"a", b"b", b"c", b"d"]

    run(story)


async def lock_gone(log: Log) -> None:
    """Wait until the owner hears that its lock went with its session; it asks for it again then."""
    for _ in range(1_000):
        try:
            log.check_lock()
        except OwnershipLost:
            return
        await asyncio.sleep(0.0001)
    raise AssertionError("the lock stays")


def test_an_owner_without_its_lock_does_not_say_that_numbers_are_missing(run: Run) -> None:
    """Another one may have them."""

    async def story(world: ProxyWorld) -> None:
        await new_stream(world)
        proxy = Proxy(world, 1)
        await proxy.streams.write("s", b"a", writer=w(0))
        proxy.store.expire()
        proxy.store.tick()
        await lock_gone(await proxy.namespace.open_log("s"))
        unsure = await proxy.streams.write("s", b"x", writer=w(2))
        assert unsure.code is StatusCode.STREAM_UNAVAILABLE
        assert (await proxy.streams.write("s", b"b", writer=w(1))).code is SUCCESS
        await asyncio.sleep(2)
        assert (await proxy.streams.write("s", b"x", writer=w(3))).code is GAP
        await proxy.streams.close()
        assert await payloads_of(world) == [b"a", b"b"]

    run(story)


def test_a_bulk_that_the_stream_has_in_part_writes_the_rest(run: Run) -> None:
    async def story(world: ProxyWorld) -> None:
        await new_stream(world)
        streams = Proxy(world, 1).streams
        first = await streams.write_bulk("s", [b"a", b"b"], writer=w(0))
        second = await streams.write_bulk("s", [b"a", b"b", b"c"], writer=w(0))
        assert second.each[:2] == first.each
        assert codes([*second.each]) == [SUCCESS] * 3
        await streams.close()
        assert await payloads_of(world) == [b"a", b"b", b"c"]

    run(story)


def test_a_record_set_has_one_number(run: Run) -> None:
    async def story(world: ProxyWorld) -> None:
        await new_stream(world)
        one, two = Proxy(world, 1), Proxy(world, 2)
        payload = pack_record_set([b"a", b"b"])

        async def ask(proxy: Proxy) -> "list[Answer]":
            asked = [
                proxy.streams.write("s", payload, is_record_set=True, writer=w(0)),
                proxy.streams.write("s", payload, is_record_set=True, writer=w(1)),
                proxy.streams.write("s", b"c", writer=w(2)),
            ]
            return [await each for each in asked]

        answers = await ask(one)
        assert codes(answers) == [SUCCESS] * 3
        dlsns = [answer.dlsn for answer in answers if answer.dlsn is not None]
        assert [dlsn.slot for dlsn in dlsns] == [0, 2, 4]
        assert await ask(one) == answers
        await one.streams.release("s")
        assert await ask(two) == answers
        await two.streams.close()
        assert await payloads_of(world) == [b"a", b"b", b"a", b"b", b"c"]

    run(story)


def test_a_number_of_long_ago_is_known_without_its_place(run: Run) -> None:
    async def story(world: ProxyWorld) -> None:
        await new_stream(world)
        streams = Proxy(world, 1).streams
        for number in range(9):
            await streams.write("s", b"%d" % number, writer=w(number))
        answers = [await streams.write("s", b"x", writer=w(number)) for number in range(9)]
        assert codes(answers) == [SUCCESS] * 9
        assert [answer.dlsn is None for answer in answers] == [True] * 4 + [False] * 5
        await streams.close()
        assert len(await payloads_of(world)) == 9

    run(story)


def test_a_refused_record_leaves_its_number_free_and_stops_later_ones(run: Run) -> None:
    async def story(world: ProxyWorld) -> None:
        await new_stream(world)
        log = {"record_bytes_max": 1000, "waiting_bytes_max": 100_000}
        streams = Proxy(world, 1, log=log).streams
        bulk = await streams.write_bulk("s", [b"a", b"x" * 1001, b"x"], writer=w(0))
        cancelled = StatusCode.WRITE_CANCELLED_EXCEPTION
        assert codes([*bulk.each]) == [SUCCESS, StatusCode.TOO_LARGE_RECORD, cancelled]
        assert (await streams.write("s", b"x" * 1001, writer=w(1))).code is (
            StatusCode.TOO_LARGE_RECORD
        )
        assert (await streams.write("s", b"x", writer=w(2))).code is GAP
        assert (await streams.write("s", b"b", writer=w(1))).code is SUCCESS
        await streams.close()
        assert await payloads_of(world) == [b"a", b"b"]

    run(story)


def test_a_record_needs_room_for_its_number(run: Run) -> None:
    async def story(world: ProxyWorld) -> None:
        await new_stream(world)
        limit = RECORD_BYTES_MAX
        one, two = Proxy(world, 1, log={"record_bytes_max": limit}), Proxy(world, 2)
        long_id = b"i" * 64
        bulk = await one.streams.write_bulk(
            "s", [b"x" * (limit - 128), b"x" * (limit - 127), b"x"], writer=w(0, long_id)
        )
        cancelled = StatusCode.WRITE_CANCELLED_EXCEPTION
        assert codes([*bulk.each]) == [SUCCESS, StatusCode.TOO_LARGE_RECORD, cancelled]
        assert (await one.streams.write("s", b"x" * limit)).code is SUCCESS
        one.store.expire()
        assert (await two.streams.write("s", b"x", writer=w(0, long_id))) == bulk.each[0]
        await two.streams.close()
        await one.streams.close()
        assert [len(payload) for payload in await payloads_of(world)] == [limit - 128, limit]

    run(story)


def test_a_write_that_failed_does_not_take_its_number(run: Run) -> None:
    async def story(world: ProxyWorld) -> None:
        await new_stream(world)
        streams = Proxy(world, 1).streams
        first = await streams.write("s", b"a", writer=w(0))
        world.bookie.fault = refuse_adds
        lost = [streams.write("s", b"b", writer=w(1)), streams.write("s", b"b", writer=w(1))]
        assert SUCCESS not in codes([await each for each in lost])
        world.bookie.fault = no_fault
        await asyncio.sleep(2)
        assert (await streams.write("s", b"c", writer=w(2))).code is GAP
        assert (await streams.write("s", b"b", writer=w(1))).code is SUCCESS
        assert await streams.write("s", b"a", writer=w(0)) == first
        await streams.close()
        assert await payloads_of(world) == [b"a", b"b"]

    run(story)


def test_what_was_on_its_way_when_the_writer_stopped_is_not_known(run: Run) -> None:
    """Its namespace stops it without a word: the record was sent, and is not in the log."""

    async def story(world: ProxyWorld) -> None:
        await new_stream(world)
        proxy = Proxy(world, 1)
        await proxy.streams.write("s", b"a", writer=w(0))
        world.bookie.hold()
        lost = proxy.streams.write("s", b"b", writer=w(1))
        await settle()
        writer = (await proxy.namespace.open_log("s")).writer
        assert writer is not None
        await writer.abort()
        assert (await lost).code is not SUCCESS
        again = await proxy.streams.write("s", b"b", writer=w(1))
        assert again.code is not SUCCESS
        await proxy.streams.close()

    run(story)
