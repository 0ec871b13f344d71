"""Waiting at the tail of an open ledger, in virtual time."""

import asyncio
from collections.abc import Callable

import pytest

from tailrace.core.errors import (
    BookieUnavailable,
    CoreError,
    EntryNotFound,
    LedgerNotFound,
    Unavailable,
)
from tailrace.core.ledger.config import LedgerConfig
from tailrace.core.ledger.reader import LedgerReader
from tailrace.core.ledger.writer import LedgerWriter
from tailrace.core.metadata.store import Watch, WatchEvent
from tailrace.protocol.bookkeeper.entry import Entry
from tailrace.protocol.bookkeeper.messages import (
    AddRequest,
    ReadRequest,
    ReadResponse,
    Request,
    Response,
    StatusCode,
)
from tests.unit.core.ledger.fake_bookie import DOWN, FakeBookie
from tests.unit.core.ledger.fast_world import FastWorld, run_fast
from tests.unit.core.ledger.memory_store import no_outage
from tests.unit.core.ledger.test_speculative_reads import now_s, opened, texts, written
from tests.unit.core.ledger.world import REPLICATED, SINGLE, STRIPED, Listener, settle

Waiting = asyncio.Task[tuple[int, Entry | None]]


def wait_for(reader: LedgerReader, entry_id: int, timeout_ms: int = 60_000) -> Waiting:
    work = reader.read_last_confirmed_and_entry(entry_id, timeout_ms)
    return asyncio.get_running_loop().create_task(work)


async def added(writer: LedgerWriter, *entries: int) -> None:
    for i in entries:
        assert writer.add((b"%d" % i,)) == i
        await writer._adder.drained()
        await settle()


def polls_of(bookie: FakeBookie) -> int:
    return sum(isinstance(r, ReadRequest) and r.piggyback for r in bookie.requests)


CONFIGS = pytest.mark.parametrize(
    "config", [REPLICATED, STRIPED, SINGLE], ids=["3/3/2", "3/2/2", "1/1/1"]
)


@CONFIGS
def test_follower_sees_every_confirmed_entry_once(config: LedgerConfig) -> None:
    async def story(world: FastWorld) -> None:
        writer = await written(world, 2, config, is_closed=False)
        reader, _ = await opened(world, writer)
        seen: list[bytes] = []
        lacs: list[int] = []

        async def follow() -> None:
            while not (reader.is_closed and len(seen) > reader.last_confirmed):
                lac, entry = await reader.read_last_confirmed_and_entry(len(seen), 1000)
                lacs.append(lac)
                assert lac <= writer.lac
                if entry is not None:
                    assert entry.entry_id == len(seen) <= lac
                    seen.append(bytes(entry.payload))

        following = asyncio.get_running_loop().create_task(follow())
        for i in range(2, 12):
            await asyncio.sleep(0.7)
            await added(writer, i)
        await writer.close()
        await following
        assert seen == texts(0, 11)
        assert lacs == sorted(lacs)

    run_fast(story)


def test_add_wakes_the_reader_at_once() -> None:
    async def story(world: FastWorld) -> None:
        writer = await written(world, 2, is_closed=False)
        reader, _ = await opened(world, writer)
        waiting = wait_for(reader, 1)
        await asyncio.sleep(1)
        start_s = now_s()
        await added(writer, 2)
        lac, entry = await waiting
        assert entry is not None
        assert (lac, bytes(entry.payload)) == (1, b"1")
        assert now_s() == start_s

    run_fast(story)


def test_time_is_over_and_nothing_came() -> None:
    async def story(world: FastWorld) -> None:
        writer = await written(world, 2, is_closed=False)
        reader, _ = await opened(world, writer)
        start_s = now_s()
        assert await wait_for(reader, 1, 700) == (0, None)
        assert now_s() - start_s == pytest.approx(0.7, abs=0.01)
        assert not reader.is_closed

    run_fast(story)


def test_confirmed_entry_comes_at_once() -> None:
    async def story(world: FastWorld) -> None:
        writer = await written(world, 3, is_closed=False)
        reader, _ = await opened(world, writer)
        await added(writer, 3)
        await reader.read_last_confirmed()
        lac, entry = await wait_for(reader, 0, 0)
        assert entry is not None
        assert (lac, entry.entry_id) == (2, 0)
        assert sum(map(polls_of, world.bookies)) == 0

    run_fast(story)


def test_close_shows_the_last_entry_and_then_the_end() -> None:
    async def story(world: FastWorld) -> None:
        writer = await written(world, 3, is_closed=False)
        reader, _ = await opened(world, writer)
        waiting = wait_for(reader, 2)
        beyond = wait_for(reader, 3)
        await asyncio.sleep(1)
        start_s = now_s()
        await writer.close()
        lac, entry = await waiting
        assert entry is not None
        assert (lac, bytes(entry.payload)) == (2, b"2")
        assert await beyond == (2, None)
        assert now_s() == start_s
        assert reader.is_closed
        assert await wait_for(reader, 3) == (2, None)

    run_fast(story)


def test_new_ledger_is_waited_for() -> None:
    """Bookies do not know it yet: their "no such ledger" is no end, and no reason to spin."""

    async def story(world: FastWorld) -> None:
        writer = await written(world, 0, is_closed=False)
        reader, _ = await opened(world, writer)
        waiting = wait_for(reader, 0)
        await asyncio.sleep(10)
        assert 1 < sum(map(polls_of, world.bookies)) < 120
        await added(writer, 0, 1)
        await asyncio.wait([waiting], timeout=1)
        lac, entry = waiting.result()
        assert entry is not None
        assert (lac, bytes(entry.payload)) == (0, b"0")

    run_fast(story)


def test_silent_bookie_is_not_waited_for() -> None:
    async def story(world: FastWorld) -> None:
        writer = await written(world, 3, is_closed=False)
        reader, client = await opened(world, writer)
        asked_first = world.ensemble(writer)[2]
        asked_first.hold()
        waiting = wait_for(reader, 2)
        await settle()
        assert asked_first.held_count == 1
        await added(writer, 3)
        start_s = now_s()
        await waiting
        assert now_s() - start_s == pytest.approx(1.5)
        assert client.metrics.speculative_reads_total == 1

    run_fast(story)


def test_all_bookies_are_asked_at_once_if_wanted() -> None:
    async def story(world: FastWorld) -> None:
        writer = await written(world, 3, is_closed=False)
        reader, _ = await opened(world, writer, long_poll_parallel=True)
        world.ensemble(writer)[2].hold()
        waiting = wait_for(reader, 2)
        await settle()
        await added(writer, 3)
        start_s = now_s()
        await waiting
        assert now_s() == start_s

    run_fast(story)


def test_failing_bookies_are_passed_over() -> None:
    async def story(world: FastWorld) -> None:
        writer = await written(world, 3, is_closed=False)
        reader, _ = await opened(world, writer)
        _, second, third = world.ensemble(writer)
        third.fault = DOWN
        assert await wait_for(reader, 2, 100) == (1, None)
        second.fault = DOWN  # the one that is left could not tell that another one knows more
        with pytest.raises(BookieUnavailable):
            await wait_for(reader, 2, 100)

    run_fast(story)


def test_reader_goes_on_in_the_changed_ensemble() -> None:
    async def story(world: FastWorld) -> None:
        writer = await written(world, 3, is_closed=False)
        reader, _ = await opened(world, writer)
        waiting = wait_for(reader, 2)
        await asyncio.sleep(1)
        for bookie in world.ensemble(writer)[:2]:
            bookie.fault = lambda request: (
                StatusCode.LOCAL_UNAVAILABLE if isinstance(request, AddRequest) else None
            )
        await added(writer, 3, 4)
        assert len(writer.metadata.fragments) > 1
        lac, entry = await waiting
        assert entry is not None
        assert bytes(entry.payload) == b"2"
        assert lac >= 2
        _, entry = await wait_for(reader, 3)
        assert entry is not None
        assert bytes(entry.payload) == b"3"

    run_fast(story)


def test_deleted_ledger_ends_the_wait() -> None:
    async def story(world: FastWorld) -> None:
        writer = await written(world, 3, is_closed=False)
        reader, client = await opened(world, writer)
        waiting = wait_for(reader, 2)
        await asyncio.sleep(1)
        await client.delete_ledger(writer.ledger_id)
        with pytest.raises(LedgerNotFound):
            await waiting

    run_fast(story)


def test_fenced_ledger_is_waited_for_without_spinning() -> None:
    """Bookies answer at once when a ledger is fenced; its recovery may take its time."""

    async def story(world: FastWorld) -> None:
        writer = await written(world, 3, is_closed=False)
        reader, _ = await opened(world, writer)
        for bookie in world.ensemble(writer):
            bookie.ledgers[writer.ledger_id].fenced = True
        waiting = wait_for(reader, 2)
        await asyncio.sleep(20)
        assert sum(map(polls_of, world.bookies)) < 200
        await world.new_client().open_ledger(writer.ledger_id, recover=True)
        lac, entry = await waiting
        assert entry is not None
        assert (lac, bytes(entry.payload)) == (2, b"2")

    run_fast(story)


def replaced(bookie: FakeBookie, change: Callable[[ReadResponse], ReadResponse]) -> None:
    """Let a bookie answer long polls otherwise."""
    serve = bookie._serve

    def lie(request: Request) -> Response:
        response = serve(request)
        if isinstance(request, ReadRequest) and request.piggyback:
            assert isinstance(response, ReadResponse)
            return change(response)
        return response

    bookie._serve = lie  # type: ignore[method-assign]


def test_lac_of_a_lying_bookie_is_not_believed_without_the_entry() -> None:
    async def story(world: FastWorld) -> None:
        writer = await written(world, 3, SINGLE, is_closed=False)
        reader, _ = await opened(world, writer)
        (bookie,) = world.ensemble(writer)
        replaced(bookie, lambda response: response._replace(max_lac=9, body=None))
        with pytest.raises(EntryNotFound):
            await wait_for(reader, 5, 0)
        assert reader.last_confirmed == 1

    run_fast(story)


def test_wrong_bytes_are_passed_over() -> None:
    async def story(world: FastWorld) -> None:
        writer = await written(world, 3, is_closed=False)
        reader, _ = await opened(world, writer)
        await added(writer, 3)
        for bookie in world.ensemble(writer)[1:]:
            bookie.flip_bit(writer.ledger_id, 2)
        lac, entry = await wait_for(reader, 2)
        assert entry is not None
        assert (lac, bytes(entry.payload)) == (2, b"2")

    run_fast(story)


def test_lost_session_only_means_another_look() -> None:
    async def story(world: FastWorld) -> None:
        writer = await written(world, 3, is_closed=False)
        reader, _ = await opened(world, writer)
        watches: list[Watch] = []
        get = world.store.get

        async def spied(path: str, watch: Watch | None = None) -> object:
            if watch is not None:
                watches.append(watch)
            return await get(path, watch)

        world.store.get = spied  # type: ignore[method-assign, assignment]
        waiting = wait_for(reader, 2)
        await asyncio.sleep(1)
        (watch,) = watches
        watch("/ledgers", WatchEvent.SESSION_LOST)
        await asyncio.sleep(1)
        assert len(watches) == 2
        await added(writer, 3)
        _, entry = await waiting
        assert entry is not None

    run_fast(story)


def test_what_recovery_found_is_hidden_until_the_end_is_fixed() -> None:
    """Until then another recoverer may close the ledger before it."""

    async def story(world: FastWorld) -> None:
        writer = await world.client.create_ledger(REPLICATED, Listener())
        for i in range(6):
            writer.add((b"%d" % i,))  # at once: none tells that another one is confirmed
        await writer._adder.drained()
        writer.abort()
        reader, _ = await opened(world, writer)
        outages = iter(["", *["lost request"] * 100])
        world.store.outage = lambda: next(outages)
        with pytest.raises(Unavailable):
            await world.new_client().open_ledger(writer.ledger_id, recover=True)
        assert any(
            isinstance(r, AddRequest) and r.recovery for b in world.bookies for r in b.requests
        )
        assert await reader.read_last_confirmed() == -1
        assert await wait_for(reader, 0, 100) == (-1, None)
        world.store.outage = no_outage
        await world.new_client().open_ledger(writer.ledger_id, recover=True)
        assert await reader.read_last_confirmed() == 5

    run_fast(story)


def test_cancelled_wait_asks_nobody_any_more() -> None:
    async def story(world: FastWorld) -> None:
        writer = await written(world, 3, is_closed=False)
        reader, _ = await opened(world, writer)
        waiting = wait_for(reader, 2)
        await asyncio.sleep(1)
        waiting.cancel()
        await asyncio.sleep(60)
        assert sum(map(polls_of, world.bookies)) == 1
        other = wait_for(reader, 2, 100)
        try:
            assert await other == (1, None)
        except CoreError:
            pytest.fail("the reader is as good as before")

    run_fast(story)
