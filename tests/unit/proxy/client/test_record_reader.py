"""Reading through proxies that come and go: each record once, in order, from any start."""

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random

import pytest

from tailrace.core import errors
from tailrace.protocol.distributedlog.dlsn import DLSN
from tailrace.protocol.proxy.read_proxy_pb2 import ReadResponse
from tailrace.proxy.client.errors import ProxyError
from tailrace.proxy.client.messages import dlsn_of
from tailrace.proxy.client.record_reader import RecordReader
from tailrace.proxy.owner.codes import StatusCode as Code
from tests.unit.proxy.client.world import Thin, answer, run

Run = Callable[..., None]


@pytest.fixture(name="run")
def run_(tmp_path: Path) -> Run:
    return partial(run, tmp_path)


async def take(reader: RecordReader, count: int) -> list[bytes]:
    found: list[bytes] = []
    while len(found) < count and not reader.is_at_end:
        await reader.fill()
        while reader.ready and len(found) < count:
            found.append(reader.ready.popleft().payload)
    return found


async def to_end(reader: RecordReader) -> list[bytes]:
    return await take(reader, 10**9)


def numbers(first: int, last: int) -> list[bytes]:
    return [b"%d" % n for n in range(first, last)]


def test_it_reads_to_the_tail_and_ends_there(run: Run) -> None:
    async def story(thin: Thin) -> None:
        client = thin.client()
        await client.write_bulk("s", numbers(0, 100))
        await asyncio.sleep(1)
        assert await to_end(client.reader("s", None, tails=False)) == numbers(0, 100)
        assert thin.net.count("read") == 1
        last = await client.read_last("s")
        assert last is not None
        assert last.payload == b"99"

    run(story)


def test_it_begins_at_a_position_a_txid_or_behind_the_tail(run: Run) -> None:
    async def story(thin: Thin) -> None:
        client = thin.client()
        assert await client.behind_tail("s") is None
        positions = await client.write_bulk("s", numbers(0, 10))
        await asyncio.sleep(1)
        await client.write_bulk("s", numbers(10, 20))
        await asyncio.sleep(1)
        reader = client.reader("s", positions[3], tails=False)
        assert await to_end(reader) == numbers(3, 20)
        last = await client.read_last("s")
        assert last is not None
        by_txid = client.reader("s", last.transaction_id, tails=False)
        assert await to_end(by_txid) == numbers(10, 20)
        at = await client.behind_tail("s")
        assert at == dlsn_of(last.dlsn).next_slot()
        tail = client.reader("s", at, tails=True)
        await client.write_bulk("s", numbers(20, 25))
        assert await take(tail, 5) == numbers(20, 25)
        segments = await client.segments("s")
        assert [each.in_progress for each in segments] == [True]

    run(story)


def test_a_reader_of_the_tail_misses_nothing_of_an_empty_stream(run: Run) -> None:
    async def story(thin: Thin) -> None:
        client = thin.client()
        reader = client.reader("s", await client.behind_tail("s"), tails=True)
        await client.write("s", b"a")
        assert await take(reader, 1) == [b"a"]

    run(story)


async def write_now_and_then(thin: Thin, rng: Random) -> None:
    client = thin.client()
    for n in range(0, COUNT, 10):
        await client.write_bulk("s", numbers(n, n + 10))
        await asyncio.sleep(rng.choice([0, 0.01, 0.2]))


async def read_impatiently(reader: RecordReader, found: list[bytes], rng: Random) -> None:
    while len(found) < COUNT:
        waiting = asyncio.create_task(reader.fill())
        await asyncio.wait([waiting], timeout=rng.choice([0.01, 0.5]))
        waiting.cancel()  # as a caller whose patience is over
        await asyncio.wait([waiting])
        found += [one.payload for one in reader.ready]
        reader.ready.clear()


@pytest.mark.parametrize("seed", range(3))
def test_whatever_proxies_do_each_record_comes_once_and_in_order(run: Run, seed: int) -> None:
    async def story(thin: Thin) -> None:
        rng, found = Random(seed), list[bytes]()
        reader = thin.client().reader("s", None, tails=True)
        writing = asyncio.create_task(write_now_and_then(thin, rng))
        reading = asyncio.create_task(read_impatiently(reader, found, rng))
        while not writing.done():
            await asyncio.sleep(rng.uniform(0, 0.3))
            for call in list(thin.net.open_calls.get(rng.choice(thin.hosts), ())):
                call.break_()
        async with asyncio.timeout(60):
            await reading
        await writing
        assert found == numbers(0, COUNT)

    run(story, 3)


COUNT = 200


def test_what_a_proxy_sends_again_is_left_out(run: Run) -> None:
    async def story(thin: Thin) -> None:
        client = thin.client()
        await client.write_bulk("s", numbers(0, 3))
        await asyncio.sleep(1)
        last = await client.read_last("s")
        assert last is not None
        repeated = {"records": [last, last], "ledger_id": await thin.ledger_id()}
        thin.net.answers["read"] = [answer(ReadResponse, Code.SUCCESS, **repeated)]
        reader = client.reader("s", None, tails=True)
        assert await take(reader, 1) == [b"2"]
        await client.write("s", b"3")
        assert await take(reader, 1) == [b"3"], "0 and 1 lie before what it has given out"

    run(story)


def test_a_call_that_breaks_inside_of_an_entry_goes_on_there(run: Run) -> None:
    async def story(thin: Thin) -> None:
        client = thin.client()
        await client.write_bulk("s", numbers(0, 3))
        await asyncio.sleep(1)
        first = client.reader("s", None, tails=False)
        await first.fill()
        only = {"records": [first.ready[0]], "ledger_id": await thin.ledger_id()}
        thin.net.answers["read"] = [answer(ReadResponse, Code.SUCCESS, **only)]
        reader = client.reader("s", None, tails=True)
        assert await take(reader, 1) == [b"0"]
        thin.break_calls()
        assert await take(reader, 2) == [b"1", b"2"]

    run(story)


def test_a_reader_whose_next_records_are_truncated_goes_on_with_them(run: Run) -> None:
    """As one that stays at its proxy: truncation counts where a reader begins."""

    async def story(thin: Thin) -> None:
        client = thin.client()
        payloads = [bytes([n]) * 70_000 for n in range(6)]  # each is a response of its own
        positions = await client.write_bulk("s", payloads)
        await asyncio.sleep(1)
        reader = client.reader("s", None, tails=True)
        assert await take(reader, 1) == payloads[:1]
        await client.truncate("s", positions[5])
        thin.break_calls()
        assert await take(reader, 5) == payloads[1:]

    run(story)


def test_a_refused_or_dead_read_proxy_is_left_for_another(run: Run) -> None:
    async def story(thin: Thin) -> None:
        client = thin.client()
        await client.write("s", b"a")
        await asyncio.sleep(1)
        first = client.reading.routes.first("s")
        assert first is not None
        thin.net.dead.add(first)
        assert await to_end(client.reader("s", None, tails=False)) == [b"a"]
        assert first not in client.reading.routes.hosts

    run(story)


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (Code.END_OF_STREAM, errors.EndOfStream),
        (Code.LOG_SEGMENT_IS_TRUNCATED, errors.LogTruncated),
        (Code.LOG_READ_ERROR, errors.EntryNotFound),
        (Code.OVER_CAPACITY, errors.OverCapacity),
    ],
)
def test_an_error_comes_behind_the_records_and_ends_nothing(
    run: Run, code: Code, kind: type[Exception]
) -> None:
    async def story(thin: Thin) -> None:
        client = thin.client()
        await client.write("s", b"a")
        await asyncio.sleep(1)
        last = await client.read_last("s")
        with_record = answer(ReadResponse, code, records=[last])
        thin.net.answers["read"] = [with_record, answer(ReadResponse, code)]
        reader = client.reader("s", None, tails=True)
        assert await take(reader, 1) == [b"a"]
        with pytest.raises(kind) as failed:
            await reader.fill()
        assert isinstance(failed.value, ProxyError)
        assert failed.value.code is code
        await client.write("s", b"b")
        assert await take(reader, 1) == [b"b"]

    run(story)


def test_a_stream_that_is_missing_is_an_error_at_once(run: Run) -> None:
    async def story(thin: Thin) -> None:
        client = thin.client()
        with pytest.raises(errors.LogNotFound):
            await client.reader("t", None, tails=True).fill()
        with pytest.raises(errors.LogNotFound):
            await client.read_last("t")

    run(story)


def test_without_an_answer_it_raises_in_its_time_and_goes_on_later(run: Run) -> None:
    async def story(thin: Thin) -> None:
        client = thin.client(request_timeout_ms=10_000)
        await client.write("s", b"a")
        await asyncio.sleep(1)
        reader = client.reader("s", None, tails=True)
        thin.net.dead.update(thin.hosts)
        began = asyncio.get_running_loop().time()
        with pytest.raises(errors.Unavailable, match="NOT_CONNECTED"):
            await reader.fill()
        assert asyncio.get_running_loop().time() - began == pytest.approx(10, abs=0.3)
        thin.net.dead.clear()
        assert await take(reader, 1) == [b"a"]

    run(story)


def test_a_closed_reader_raises_where_it_waits(run: Run) -> None:
    async def story(thin: Thin) -> None:
        client = thin.client()
        reader = client.reader("s", DLSN(1, 0, 0), tails=True)
        waiting = asyncio.create_task(reader.fill())
        await asyncio.sleep(1)
        await client.close_reader(reader)
        await asyncio.wait([waiting])
        assert isinstance(waiting.exception(), errors.ReadCancelled)
        with pytest.raises(errors.ReadCancelled):
            await reader.fill()

    run(story)
