"""A stream's records on their way: many in flight, one order, sent again when a call ends."""

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random

import pytest

from tailrace.core import errors
from tailrace.protocol.distributedlog.dlsn import DLSN, INVALID
from tailrace.protocol.proxy.write_proxy_pb2 import WriteStreamResponse
from tailrace.proxy.client.client import ProxyClient
from tailrace.proxy.client.errors import ProxyError
from tailrace.proxy.client.messages import dlsn_message
from tailrace.proxy.owner.codes import StatusCode as Code
from tests.unit.proxy.client.world import Thin, answer, host_of, run
from tests.unit.proxy.owner.world import new_stream

Run = Callable[..., None]


@pytest.fixture(name="run")
def run_(tmp_path: Path) -> Run:
    return partial(run, tmp_path)


async def write_all(client: ProxyClient, count: int) -> list["asyncio.Future[DLSN]"]:
    writer = client.writer("s")
    return [await writer.submit(b"%d" % n) for n in range(count)]


def numbers(count: int) -> list[bytes]:
    return [b"%d" % n for n in range(count)]


def opened(response_id: int, code: Code, location: str = "", written: int = 0) -> object:
    dlsns = [dlsn_message(DLSN(1, 0, n)) for n in range(written)]
    return answer(WriteStreamResponse, code, location, id=response_id, dlsns=dlsns)


def test_many_records_share_messages_and_keep_their_order(run: Run) -> None:
    async def story(thin: Thin) -> None:
        client = thin.client()
        taken = await write_all(client, 5_000)
        await client.writer("s").flush()
        positions = [each.result() for each in taken]
        assert positions == sorted(set(positions))
        assert thin.net.count("write_stream") <= 2
        assert client._room.budget.used == 0
        assert await thin.payloads() == numbers(5_000)

    run(story)


def test_an_idle_call_ends_and_the_next_record_opens_another(run: Run) -> None:
    async def story(thin: Thin) -> None:
        client = thin.client(writer_idle_ms=1_000)
        for _ in range(2):
            await (await client.writer("s").submit(b"a"))
            await asyncio.sleep(2)
            assert client.writer("s").is_idle
            assert not any(thin.net.open_calls.values())
        assert await thin.payloads() == [b"a", b"a"]

    run(story)


def test_a_stream_that_moves_takes_its_records_along(run: Run) -> None:
    async def story(thin: Thin) -> None:
        client = thin.client()
        first = await write_all(client, 10)
        await asyncio.wait(first)
        former = thin.owner()
        (other,) = [each for each in thin.proxies if each is not former]
        await former.streams.release("s")
        await other.streams.heartbeat("s")
        writer = client.writer("s")
        later = [await writer.submit(b"%d" % n) for n in range(10, 20)]
        await asyncio.wait(later)
        assert thin.owner() is other
        assert await thin.payloads() == numbers(20)

    run(story)


def test_a_killed_owner_loses_nothing_that_was_answered(run: Run) -> None:
    async def story(thin: Thin) -> None:
        client = thin.client(batch_records=10)
        taken = await write_all(client, 300)
        await asyncio.wait(taken[:20])
        await thin.kill(thin.owner())
        await asyncio.wait(taken)
        assert all(each.exception() is None for each in taken)
        found = await thin.payloads()
        assert list(dict.fromkeys(found)) == numbers(300), "each, in order of its first time"

    run(story)


def test_a_buffer_that_is_full_has_writing_wait(run: Run) -> None:
    async def story(thin: Thin) -> None:
        client = thin.client(buffer_bytes=10_000, rpc_timeout_ms=60_000)
        await (await client.writer("s").submit(b"a"))
        await new_stream(thin.world, "t")
        thin.world.bookie.hold()

        async def write(stream: str, payload: bytes) -> "asyncio.Future[DLSN]":
            return await client.writer(stream).submit(payload)

        tasks = [
            asyncio.create_task(write("st"[n % 2], b"%05d" % n + bytes(1_000))) for n in range(40)
        ]
        await asyncio.sleep(1)
        budget = client._room.budget
        done = [each for each in tasks if each.done()]
        assert 5 <= len(done) <= 10
        assert budget.used <= 10_000 + 2 * 1_300
        cancelled = tasks[30]
        cancelled.cancel()
        thin.world.bookie.release()
        await asyncio.wait(tasks)
        await client.flush()
        assert budget.used == 0
        found = [int(each[:5]) for each in (await thin.payloads())[1:]]
        assert found == [n for n in range(0, 40, 2) if n != 30]

    run(story)


def test_a_record_that_is_too_large_is_refused_here(run: Run) -> None:
    async def story(thin: Thin) -> None:
        client = thin.client(record_bytes_max=100)
        with pytest.raises(errors.LogRecordTooLong, match=r"max\.request\.size"):
            await client.writer("s").submit(bytes(101))
        assert not thin.net.calls

    run(story)


def test_one_refused_record_fails_alone_and_what_is_behind_it_is_written(run: Run) -> None:
    async def story(thin: Thin) -> None:
        client = thin.client(batch_records=4)
        thin.net.answers["write_stream"] = [
            opened(0, Code.SUCCESS),
            opened(1, Code.TOO_LARGE_RECORD, written=1),
        ]
        taken = await write_all(client, 6)
        await asyncio.wait(taken)
        assert isinstance(taken[1].exception(), errors.LogRecordTooLong)
        assert [n for n, each in enumerate(taken) if each.exception() is not None] == [1]
        assert await thin.payloads() == [b"2", b"3", b"4", b"5"]  # 0 was made up

    run(story)


def test_what_is_over_capacity_fails_with_its_message(run: Run) -> None:
    async def story(thin: Thin) -> None:
        client = thin.client(batch_records=4)
        thin.net.answers["write_stream"] = [
            opened(0, Code.SUCCESS),
            opened(1, Code.OVER_CAPACITY),
        ]
        taken = await write_all(client, 6)
        await asyncio.wait(taken)
        failed = [n for n, each in enumerate(taken) if each.exception() is not None]
        assert failed == [0, 1, 2, 3]
        error = taken[0].exception()
        assert isinstance(error, ProxyError)
        assert isinstance(error, errors.OverCapacity)
        assert not error.is_unknown
        assert len(set(thin.net.asked("write_stream"))) == 1, "the owner is asked again"
        assert await thin.payloads() == [b"4", b"5"]

    run(story)


def test_what_is_behind_a_message_in_doubt_is_in_doubt(run: Run) -> None:
    """It may lie in the same entry."""

    async def story(thin: Thin) -> None:
        client = thin.client(batch_records=2, stream_failfast=True)
        thin.net.answers["write_stream"] = [
            opened(0, Code.SUCCESS),
            opened(1, Code.BK_TRANSMIT_ERROR, written=1),
        ]
        taken = await write_all(client, 4)
        await asyncio.wait(taken)
        found = [each.exception() for each in taken]
        assert found[0] is None
        assert [isinstance(each, errors.NotEnoughBookies) for each in found[1:]] == [True] * 3
        assert [getattr(each, "is_unknown", None) for each in found[1:]] == [True] * 3

    run(story)


def test_a_sealed_stream_fails_all_at_once_and_each_later_record(run: Run) -> None:
    async def story(thin: Thin) -> None:
        client = thin.client()
        thin.net.answers["write_stream"] = [opened(0, Code.END_OF_STREAM)] * 2
        taken = await write_all(client, 6)
        await asyncio.wait(taken)
        assert all(isinstance(each.exception(), errors.EndOfStream) for each in taken)
        with pytest.raises(errors.EndOfStream):
            await (await client.writer("s").submit(b""))

    run(story)


def test_an_owner_that_hangs_is_left_and_records_end_in_their_time(run: Run) -> None:
    async def story(thin: Thin) -> None:
        client = thin.client(rpc_timeout_ms=1_000, request_timeout_ms=20_000)
        await asyncio.wait(await write_all(client, 1))
        former = thin.owner()
        thin.net.hung.add(host_of(former))
        asyncio.get_running_loop().call_later(1.0, former.store.expire)
        await (await client.writer("s").submit(b"b"))
        thin.net.hung.update(thin.hosts)
        began = asyncio.get_running_loop().time()
        late = await client.writer("s").submit(b"c")
        with pytest.raises(errors.Unavailable, match="no answer in time") as failed:
            await late
        assert isinstance(failed.value, ProxyError)
        assert failed.value.is_unknown
        assert 19 < asyncio.get_running_loop().time() - began < 22
        thin.net.hung.clear()

    run(story)


def test_a_position_that_the_owner_has_forgotten_is_none(run: Run) -> None:
    async def story(thin: Thin) -> None:
        client = thin.client()
        thin.net.answers["write_stream"] = [opened(0, Code.SUCCESS), opened(1, Code.SUCCESS)]
        assert await (await client.writer("s").submit(b"a")) == INVALID

    run(story)


def test_answers_out_of_order_end_the_call(run: Run) -> None:
    async def story(thin: Thin) -> None:
        client = thin.client()
        thin.net.answers["write_stream"] = [
            opened(0, Code.SUCCESS),
            opened(7, Code.SUCCESS, written=1),
        ]
        await (await client.writer("s").submit(b"a"))
        assert await thin.payloads() == [b"a"]

    run(story)


def test_a_closed_client_fails_what_is_not_answered(run: Run) -> None:
    async def story(thin: Thin) -> None:
        client = thin.client()
        thin.net.hung.update(thin.hosts)
        taken = await write_all(client, 3)
        await asyncio.sleep(0.5)
        await client.close()
        assert all(isinstance(each.exception(), errors.Unavailable) for each in taken)
        assert client._room.budget.used == 0

    run(story)


def test_a_cancelled_caller_ends_only_its_waiting(run: Run) -> None:
    async def story(thin: Thin) -> None:
        client = thin.client()
        thin.world.bookie.hold()

        async def write() -> DLSN:
            return await (await client.writer("s").submit(b"a"))

        writing = asyncio.create_task(write())
        await asyncio.sleep(0.5)
        writing.cancel()
        await asyncio.wait([writing])
        thin.world.bookie.release()
        await (await client.writer("s").submit(b"b"))
        assert await thin.payloads() == [b"a", b"b"]

    run(story)


def test_idle_writers_beyond_the_bound_are_forgotten(run: Run) -> None:
    async def story(thin: Thin) -> None:
        client = thin.client(writers_max=2, writer_idle_ms=100)
        for name in ("t", "u", "v"):
            await new_stream(thin.world, name)
            await (await client.writer(name).submit(b"a"))
            await asyncio.sleep(1)
        assert list(client._writers) == ["u", "v"]
        thin.net.hung.update(thin.hosts)
        for name in ("u", "v"):
            await client.writer(name).submit(b"a")
        with pytest.raises(errors.OverCapacity, match=r"writers\.max"):
            client.writer("w")
        thin.net.hung.clear()

    run(story)


@pytest.mark.parametrize("seed", range(3))
def test_whatever_happens_each_record_is_there_and_in_order(run: Run, seed: int) -> None:
    """Without numbers: at least once, the first times in order."""

    async def story(thin: Thin) -> None:
        await trouble(thin, thin.client(batch_records=5, rpc_timeout_ms=2_000), Random(seed))
        found = await thin.payloads()
        assert list(dict.fromkeys(found)) == numbers(COUNT)

    run(story, 3)


COUNT = 300


async def trouble(thin: Thin, client: ProxyClient, rng: Random) -> None:
    """Write while sessions end, streams are released, proxies hang and calls break."""
    writer, taken = client.writer("s"), []
    for n in range(COUNT):
        taken.append(await writer.submit(b"%d" % n))
        if rng.random() < 0.15:
            await one_trouble(thin, rng)
        if rng.random() < 0.5:
            await asyncio.sleep(rng.choice([0, 0.001, 0.01, 0.1]))
    thin.net.hung.clear()
    thin.net.dead.clear()
    await writer.flush()
    for each in taken:
        each.result()


async def one_trouble(thin: Thin, rng: Random) -> None:
    proxy = rng.choice(thin.proxies)
    host = host_of(proxy)
    kind = rng.random()
    if kind < 0.25:
        for call in list(thin.net.open_calls.get(host, ())):
            call.break_()
    elif kind < 0.4:
        thin.net.kill(host)
        asyncio.get_running_loop().call_later(0.5, thin.net.dead.discard, host)
    elif kind < 0.5:
        thin.net.hung.add(host)
        asyncio.get_running_loop().call_later(1.5, thin.net.hung.discard, host)
    elif kind < 0.7:
        await proxy.streams.release("s")
    elif kind < 0.85:
        proxy.store.expire()
    else:
        await asyncio.sleep(1)
    if kind >= 0.7:
        proxy.store.tick()


# ---------------------------------------------------------------------- with numbers


def test_a_lost_answer_does_not_write_twice(run: Run) -> None:
    async def story(thin: Thin) -> None:
        client = thin.client(idempotence=True, batch_records=2)
        first = await client.write("s", b"0")
        taken = [await client.writer("s").submit(b"%d" % n) for n in range(1, 11)]
        await asyncio.sleep(0.0005)
        for calls in list(thin.net.open_calls.values()):
            for call in list(calls):
                call.break_()
        await asyncio.wait(taken)
        positions = [first, *(each.result() for each in taken)]
        assert positions == sorted(set(positions)), "each has the position of its first time"
        assert await thin.payloads() == numbers(11)

    run(story)


@pytest.mark.parametrize("seed", range(5))
def test_with_numbers_each_record_is_there_once_and_in_order(run: Run, seed: int) -> None:
    async def story(thin: Thin) -> None:
        client = thin.client(idempotence=True, batch_records=5, rpc_timeout_ms=2_000)
        await trouble(thin, client, Random(seed))
        assert await thin.payloads() == numbers(COUNT)

    run(story, 3)


def test_a_writer_that_the_owner_has_forgotten_begins_again(run: Run) -> None:
    async def story(thin: Thin) -> None:
        client = thin.client(idempotence=True, writer_idle_ms=1_000)
        await client.write("s", b"0")
        await asyncio.sleep(5)
        writer = client.writer("s")
        former = writer._queue.writer_id
        thin.net.answers["write_stream"] = [opened(0, Code.TRANSACTION_OUT_OF_ORDER)]
        await client.write("s", b"1")
        assert writer._queue.writer_id != former
        assert await thin.payloads() == numbers(2)

    run(story)


def test_a_gap_that_is_not_the_owners_forgetting_fails(run: Run) -> None:
    async def story(thin: Thin) -> None:
        client = thin.client(idempotence=True)
        thin.net.answers["write_stream"] = [opened(0, Code.TRANSACTION_OUT_OF_ORDER)] * 9
        with pytest.raises(errors.TransactionIdOutOfOrder):
            await client.write("s", b"0")
        assert thin.net.count("write_stream") == 1

    run(story)


def test_two_clients_of_one_stream_each_keep_their_order(run: Run) -> None:
    async def story(thin: Thin) -> None:
        clients = [thin.client(idempotence=True, batch_records=3) for _ in range(2)]
        taken = []
        for n in range(100):
            for number, client in enumerate(clients):
                taken.append(await client.writer("s").submit(b"%d.%d" % (number, n)))
            if n == 50:
                await thin.owner().streams.release("s")
            await asyncio.sleep(0.001)
        await asyncio.wait(taken)
        found = await thin.payloads()
        for number in range(2):
            mine = [each for each in found if each.startswith(b"%d." % number)]
            assert mine == [b"%d.%d" % (number, n) for n in range(100)]

    run(story)
