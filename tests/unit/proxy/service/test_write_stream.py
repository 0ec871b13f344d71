"""WriteStream: many requests in flight, answers in order, nothing behind a failure."""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.core.log import receipts
from tailrace.protocol.bookkeeper.messages import AddRequest, Request
from tailrace.protocol.bookkeeper.messages import StatusCode as BookieCode
from tailrace.protocol.distributedlog.dlsn import DLSN
from tailrace.protocol.proxy.checksum import request_checksum
from tailrace.protocol.proxy.common_pb2 import Dlsn, ResponseHeader
from tailrace.protocol.proxy.write_proxy_pb2 import (
    WriterSequence,
    WriteStreamRequest,
    WriteStreamResponse,
)
from tailrace.proxy.owner.codes import StatusCode
from tailrace.proxy.owner.operations import UNKNOWN_DLSN, Answer, WriteChain
from tailrace.proxy.service.answers import stream_response
from tailrace.proxy.service.invalid import InvalidRequest
from tests.proxy_client import opening, records
from tests.unit.core.ledger.fake_bookie import no_fault
from tests.unit.proxy.owner.world import Proxy, ProxyWorld, new_stream, payloads_of
from tests.unit.proxy.owner.world import run as run_in_virtual_time
from tests.unit.proxy.service.world import Requests, answers_to, decoded, service_of

Run = Callable[[Callable[[ProxyWorld], Coroutine[Any, Any, None]]], None]
SMALL = {"record_bytes_max": 1000, "waiting_bytes_max": 100_000}


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return lambda story: run_in_virtual_time(tmp_path, story)


def refuse_adds(request: Request) -> BookieCode | None:
    return BookieCode.EIO if isinstance(request, AddRequest) else None


def told(answers: list[WriteStreamResponse]) -> list[tuple[int, int, int]]:
    return [(each.id, each.header.code, len(each.dlsns)) for each in answers]


def test_answers_come_in_the_order_of_the_requests(run: Run) -> None:
    async def story(world: ProxyWorld) -> None:
        await new_stream(world)
        proxy = Proxy(world, 1)
        requests = [records(n, [b"%d-%d" % (n, i) for i in range(n)]) for n in range(1, 6)]
        answers = await answers_to(service_of(proxy), opening("s"), *requests)
        assert told(answers) == [(0, 200, 0), *[(n, 200, n) for n in range(1, 6)]]
        positions = [
            DLSN(each.log_segment_sequence_number, each.entry_id, each.slot_id)
            for answer in answers
            for each in answer.dlsns
        ]
        assert positions == sorted(set(positions))
        await proxy.streams.close()
        written = [b"%d-%d" % (n, i) for n in range(1, 6) for i in range(n)]
        assert await payloads_of(world) == written

    run(story)


def test_a_call_without_records_and_a_request_without_payloads(run: Run) -> None:
    async def story(world: ProxyWorld) -> None:
        await new_stream(world)
        service = service_of(Proxy(world, 1))
        assert await answers_to(service) == []
        assert told(await answers_to(service, opening("s"))) == [(0, 200, 0)]
        answers = await answers_to(service, opening("s"), records(7, []), records(9, [b"a"]))
        assert told(answers) == [(0, 200, 0), (7, 200, 0), (9, 200, 1)]

    run(story)


def test_a_call_whose_client_sends_nothing_ends_when_the_service_says_so(run: Run) -> None:
    async def story(world: ProxyWorld) -> None:
        await new_stream(world)
        proxy = Proxy(world, 1)
        service = service_of(proxy)
        requests = Requests([opening("s"), records(1, [b"a"])], asyncio.Event().wait)
        answers: list[WriteStreamResponse] = []

        async def call() -> None:
            answers.extend([decoded(each) async for each in service.write_stream(aiter(requests))])

        running = asyncio.ensure_future(call())
        await asyncio.sleep(1)
        assert not running.done()
        await proxy.streams.close()
        service.end_write_streams()
        await running  # else this is a Deadlock
        assert told(answers) == [(0, 200, 0), (1, 200, 1)]
        assert await payloads_of(world) == [b"a"]

    run(story)


def test_what_was_read_is_answered_before_a_call_is_ended(run: Run) -> None:
    async def story(world: ProxyWorld) -> None:
        await new_stream(world)
        service = service_of(Proxy(world, 1))
        requests = Requests(
            [opening("s"), records(1, [b"a"]), records(2, [b"b"])], asyncio.Event().wait
        )
        answers = []
        async for answer in service.write_stream(aiter(requests)):
            answers.append(decoded(answer))
            if requests.read == 3:
                service.end_write_streams()
        assert told(answers) == [(0, 200, 0), (1, 200, 1), (2, 200, 1)]

    run(story)


def test_the_opening_is_refused_with_the_owner(run: Run) -> None:
    async def story(world: ProxyWorld) -> None:
        await new_stream(world)
        one, two = Proxy(world, 1), Proxy(world, 2)
        await one.streams.heartbeat("s")
        (answer,) = await answers_to(service_of(two), opening("s"), records(1, [b"a"]))
        assert (answer.header.code, answer.header.location) == (302, "1;1;host:4001")
        await one.streams.close()
        assert await payloads_of(world) == []

    run(story)


def test_nothing_is_written_behind_a_record_that_was_refused(run: Run) -> None:
    async def story(world: ProxyWorld) -> None:
        await new_stream(world)
        proxy = Proxy(world, 1, log=SMALL)
        answers = await answers_to(
            service_of(proxy),
            opening("s"),
            records(1, [b"a"]),
            records(2, [b"b", b"x" * 1001, b"c"]),
            records(3, [b"d"]),
            records(4, [b"e"]),
        )
        assert told(answers) == [(0, 200, 0), (1, 200, 1), (2, 413, 1)]
        await proxy.streams.close()
        assert await payloads_of(world) == [b"a", b"b"]

    run(story)


@pytest.mark.parametrize(
    ("refused", "code"),
    [
        (records(2, [b"b"], crc32=1), StatusCode.CHECKSUM_FAILED),
        (records(2, [b"b"] * 6), StatusCode.REQUEST_DENIED),
    ],
)
def test_a_request_that_is_refused_ends_the_call(
    run: Run, refused: WriteStreamRequest, code: StatusCode
) -> None:
    async def story(world: ProxyWorld) -> None:
        await new_stream(world)
        proxy = Proxy(world, 1)
        service = service_of(proxy, request_records_max=5)
        good = records(1, [b"a", b"b"], crc32=request_checksum("s", b"a", b"b"))
        answers = await answers_to(service, opening("s"), good, refused, records(3, [b"c"]))
        assert told(answers) == [(0, 200, 0), (1, 200, 2), (2, code, 0)]
        await proxy.streams.close()
        assert await payloads_of(world) == [b"a", b"b"]

    run(story)


def test_a_call_goes_on_no_more_once_its_stream_was_lost(run: Run) -> None:
    """Though the stream could be claimed again before the next request comes."""

    async def story(world: ProxyWorld) -> None:
        await new_stream(world)
        proxy = Proxy(world, 1, claim_pause_ms=0)
        service = service_of(proxy)

        async def requests() -> Any:
            yield opening("s")
            yield records(1, [b"a"])
            await asyncio.sleep(1)
            world.bookie.fault = refuse_adds
            yield records(2, [b"b"])
            await asyncio.sleep(1)
            world.bookie.fault = no_fault
            yield records(3, [b"c"])

        answers = [decoded(each) async for each in service.write_stream(requests())]
        assert [each.id for each in answers] == [0, 1, 2]
        assert [each.header.code for each in answers][:2] == [200, 200]
        assert answers[2].header.code != 200
        await asyncio.sleep(60)
        assert b"c" not in await payloads_of(world)
        await proxy.streams.close()

    run(story)


def test_the_next_request_is_read_only_when_there_is_room(run: Run) -> None:
    async def story(world: ProxyWorld) -> None:
        await new_stream(world)
        proxy = Proxy(world, 1)
        service = service_of(proxy, stream_records_max=10, stream_bytes_max=1_000)
        for payload, read in ((b"x", 1 + 5), (b"x" * 300, 1 + 2)):
            many = [records(number, [payload] * 2) for number in range(1, 50)]
            requests = Requests([opening("s"), *many])
            async with aclosing(service.write_stream(aiter(requests))) as call:
                assert decoded(await anext(call)).header.code == StatusCode.SUCCESS
                world.bookie.hold()
                waiting = asyncio.ensure_future(anext(call))
                await asyncio.sleep(60)
                assert requests.read == read
                world.bookie.release()
                assert decoded(await waiting).id == 1
                await asyncio.sleep(60)
                assert requests.read == read + 1, "one answer makes room for one"

    run(story)


def test_requests_without_records_take_room_too(run: Run) -> None:
    async def story(world: ProxyWorld) -> None:
        await new_stream(world)
        service = service_of(Proxy(world, 1), stream_records_max=10)
        requests = Requests([opening("s"), *(records(number, []) for number in range(1, 50))])
        async with aclosing(service.write_stream(aiter(requests))) as call:
            assert [decoded(await anext(call)).id for _ in range(2)] == [0, 1]
            await asyncio.sleep(60)
            assert requests.read == 1 + 1 + 10

    run(story)


@pytest.mark.parametrize(
    ("requests", "cause"),
    [
        ([records(1, [b"a"])], "must be `open`"),
        ([WriteStreamRequest()], "must be `open`"),
        ([opening("s", is_record_set=True)], "is_record_set"),
        ([opening("s"), opening("s")], "comes first and once"),
        ([opening("s"), WriteStreamRequest()], "comes first and once"),
        ([opening("s"), records(0, [b"b"])], "must rise from 1"),
        ([opening("s"), records(1, []), records(1, [])], "must rise"),
        ([opening("s"), records(-1, [])], "must rise"),
    ],
)
def test_what_no_client_sends_ends_the_call(
    run: Run, requests: list[WriteStreamRequest], cause: str
) -> None:
    async def story(world: ProxyWorld) -> None:
        await new_stream(world)
        with pytest.raises(InvalidRequest, match=cause):
            await answers_to(service_of(Proxy(world, 1)), *requests)

    run(story)


def test_answers_to_what_came_before_are_given_first(run: Run) -> None:
    async def story(world: ProxyWorld) -> None:
        await new_stream(world)
        requests = Requests([opening("s"), records(1, [b"a"]), opening("s")])
        call = service_of(Proxy(world, 1)).write_stream(aiter(requests))
        assert [decoded(await anext(call)).id for _ in range(2)] == [0, 1]
        with pytest.raises(InvalidRequest):
            await anext(call)

    run(story)


@pytest.mark.parametrize("answers", [1, 2])
def test_a_call_that_is_cancelled_leaves_nothing_running(run: Run, answers: int) -> None:
    async def story(world: ProxyWorld) -> None:
        await new_stream(world)
        proxy = Proxy(world, 1)
        await proxy.streams.heartbeat("s")
        before = asyncio.all_tasks()
        ended = asyncio.Event()

        async def requests() -> Any:
            try:
                yield opening("s")
                yield records(1, [b"a"])
                await asyncio.Event().wait()
            finally:
                ended.set()

        source = requests()
        async with aclosing(source), aclosing(service_of(proxy).write_stream(source)) as call:
            for _ in range(answers):
                await anext(call)
            waiting = asyncio.ensure_future(anext(call))
            await asyncio.sleep(1)
            waiting.cancel()
            await asyncio.wait([waiting])
        assert ended.is_set()
        assert asyncio.all_tasks() == before

    run(story)


def test_a_numbered_call_that_is_repeated_writes_what_is_new(run: Run) -> None:
    async def story(world: ProxyWorld) -> None:
        await new_stream(world)
        proxy = Proxy(world, 1)
        writer = WriterSequence(writer_id=b"w")
        first = [records(1, [b"a", b"b"]), records(2, [b"c"])]
        once = await answers_to(service_of(proxy), opening("s", writer=writer), *first)
        again = [*first, records(3, [b"d"])]
        twice = await answers_to(service_of(proxy), opening("s", writer=writer), *again)
        assert twice[:-1] == once
        gap = opening("s", writer=WriterSequence(writer_id=b"w", sequence=7))
        answers = await answers_to(service_of(proxy), gap, records(1, [b"e"]), records(2, [b"f"]))
        assert told(answers) == [(0, 200, 0), (1, StatusCode.TRANSACTION_OUT_OF_ORDER, 0)]
        denied = opening("s", writer=WriterSequence())
        answers = await answers_to(service_of(proxy), denied, records(1, [b"e"]))
        assert told(answers) == [(0, StatusCode.REQUEST_DENIED, 0)]
        await proxy.streams.close()
        assert await payloads_of(world) == [b"a", b"b", b"c", b"d"]

    run(story)


def test_a_position_that_is_not_kept_is_empty() -> None:
    answer = Answer(
        StatusCode.SUCCESS, runs=(receipts.Run(UNKNOWN_DLSN, 1), receipts.Run(DLSN(1, 2, 3), 1))
    )
    first, second = WriteStreamResponse.FromString(stream_response(1, answer)).dlsns
    assert first == Dlsn()
    assert second.slot_id == 3


@pytest.mark.parametrize(
    ("payloads", "codes", "written"),
    [
        ("abcde", [200, 200, 200, 517, 516], b"abc"),
        ("aXcde", [200, 413, 516, 517, 516], b"a"),
    ],
)
def test_a_chain_that_waits_for_the_claim_has_no_hole(
    run: Run, payloads: str, codes: list[int], written: bytes
) -> None:
    """Three find room in the queue; X is too long for the log."""

    async def story(world: ProxyWorld) -> None:
        await new_stream(world)
        proxy = Proxy(world, 1, log=SMALL, queued_operations_max=3)
        chain = WriteChain()
        records = [each.encode() * (1001 if each == "X" else 1) for each in payloads]
        writes = [proxy.streams.write_bulk("s", [each], chain=chain) for each in records]
        assert [(await each).code for each in writes] == codes
        assert (await proxy.streams.write_bulk("s", [b"f"], chain=chain)).code == 516
        await proxy.streams.close()
        assert b"".join(await payloads_of(world)) == written

    run(story)


NUMBERS = st.integers(0, 2**62) | st.integers(0, 3)
SLOTS = NUMBERS | st.sampled_from((0, 100, 4_090, 16_380))
RUNS = st.builds(receipts.Run, st.builds(DLSN, NUMBERS, NUMBERS, SLOTS), st.integers(1, 40))


@given(
    st.integers(1, 2**62),
    st.lists(RUNS),
    st.sampled_from(StatusCode),
    st.text(),
)
def test_the_encoding_by_hand_is_protobufs(
    number: int, runs: list[receipts.Run], code: StatusCode, error: str
) -> None:
    data = stream_response(number, Answer(code, error, "1;2;h:3", runs=tuple(runs)))
    assert WriteStreamResponse.FromString(data) == WriteStreamResponse(
        id=number,
        header=ResponseHeader(code=code.name, error=error, location="1;2;h:3"),
        dlsns=[
            Dlsn(log_segment_sequence_number=lssn, entry_id=entry_id, slot_id=first + at)
            for (lssn, entry_id, first), count in runs
            for at in range(count)
        ],
    )
