import asyncio
from pathlib import Path

import pytest

from tailrace.core.errors import (
    BookieUnavailable,
    CoreError,
    LedgerFenced,
    LogRecordTooLong,
    NotEnoughBookies,
    OverCapacity,
    UnauthorizedAccess,
    Unavailable,
)
from tailrace.core.ledger import adder
from tailrace.core.ledger.config import LedgerConfig
from tailrace.core.metadata.ledger_metadata import LedgerState
from tailrace.protocol.bookkeeper.digest import Digest, DigestType
from tailrace.protocol.bookkeeper.entry import MAX_ENTRY_BYTES, read_entry
from tailrace.protocol.bookkeeper.messages import AddRequest, Request, StatusCode
from tests.unit.core.ledger.fake_bookie import DOWN
from tests.unit.core.ledger.world import (
    REPLICATED,
    SINGLE,
    STRIPED,
    Listener,
    World,
    run_world,
    settle,
)

TINY = LedgerConfig(unconfirmed_entries_max=3, unconfirmed_bytes_max=10)


def fails_with(status: StatusCode, entry_id: int = 0) -> object:
    def fault(request: Request) -> StatusCode | None:
        add = isinstance(request, AddRequest) and request.entry_id == entry_id
        return status if add else None

    return fault


def test_each_entry_carries_the_lac_of_its_time_and_the_length_so_far(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        writer = await world.client.create_ledger(SINGLE, Listener())
        (bookie,) = world.ensemble(writer)
        digest = Digest(DigestType.CRC32)
        writer.add((b"aa",))
        writer.add((b"bbb",))
        await writer._adder.drained()
        writer.add((b"c",))
        await writer._adder.drained()
        stored = bookie.ledgers[writer.ledger_id].entries
        read = [read_entry(stored[i], writer.ledger_id, i, digest) for i in range(3)]
        assert [entry.lac for entry in read] == [-1, -1, 1]
        assert [entry.length for entry in read] == [2, 5, 6]
        assert writer.length == 6
        await writer.close()

    run_world(tmp_path, story)


def test_entries_go_to_their_write_sets_only(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        writer = await world.client.create_ledger(STRIPED, Listener())
        for _ in range(6):
            writer.add((b"x",))
        await writer.close()
        held = [
            sorted(bookie.ledgers[writer.ledger_id].entries) for bookie in world.ensemble(writer)
        ]
        assert held == [[0, 2, 3, 5], [0, 1, 3, 4], [1, 2, 4, 5]]

    run_world(tmp_path, story)


def test_confirmation_waits_for_the_ack_quorum_in_order(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        listener = Listener()
        writer = await world.client.create_ledger(REPLICATED, listener)
        _, second, third = world.ensemble(writer)
        second.hold()
        third.hold()
        writer.add((b"0",))
        writer.add((b"1",))
        await settle()
        assert (writer.lac, writer.last_add_pushed) == (-1, 1)
        second.release(1)
        assert listener.confirmed == [0]
        third.release()
        await settle()
        assert writer.lac == 1
        second.release()
        await writer.close()
        assert listener.confirmed == [0, 1]

    run_world(tmp_path, story)


def test_slow_first_entry_holds_back_all_later_ones(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        listener = Listener()
        writer = await world.client.create_ledger(STRIPED, listener)
        slow = world.ensemble(writer)[0]  # holds entries 0, 2, 3 of 0..3
        slow.hold()
        for _ in range(4):
            writer.add((b"x",))
        await settle()
        assert writer.lac == -1
        slow.release()
        assert listener.confirmed[-1] == 3
        await writer.close()

    run_world(tmp_path, story)


def test_one_lost_bookie_of_three_is_survived(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        listener = Listener()
        writer = await world.client.create_ledger(REPLICATED, listener)
        world.ensemble(writer)[1].fault = DOWN
        for i in range(5):
            writer.add((b"%d" % i,))
        await writer.close()
        assert listener.confirmed[-1] == 4
        assert listener.errors == []
        reader = await world.client.open_ledger(writer.ledger_id, recover=False)
        assert [bytes(e.payload) for e in await reader.read(0, 4)] == [b"0", b"1", b"2", b"3", b"4"]

    run_world(tmp_path, story)


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (StatusCode.LOCAL_UNAVAILABLE, BookieUnavailable),
        (StatusCode.LOCAL_TIMEOUT, BookieUnavailable),
        (StatusCode.EREADONLY, NotEnoughBookies),
        (StatusCode.EIO, NotEnoughBookies),
        (StatusCode.EFENCED, LedgerFenced),
        (StatusCode.EUA, UnauthorizedAccess),
        (StatusCode.EBADREQ, CoreError),
    ],
)
def test_failed_add_without_another_bookie_fails_the_writer_for_good(
    tmp_path: Path, status: StatusCode, error: type[CoreError]
) -> None:
    async def story(world: World) -> None:
        listener = Listener()
        writer = await world.client.create_ledger(SINGLE, listener)
        writer.add((b"safe",))
        await writer._adder.drained()
        world.ensemble(writer)[0].fault = fails_with(status, 1)  # type: ignore[assignment]
        writer.add((b"fails",))
        writer.add((b"pending",))
        with pytest.raises(error):
            await writer.close()
        assert [type(e) for e in listener.errors] == [error]
        assert listener.confirmed == [0]
        with pytest.raises(error) as first:
            writer.add((b"x",))
        with pytest.raises(error) as second:
            writer.add((b"x",))
        assert first.value is second.value
        metadata = await world.client.ledger_metadata(writer.ledger_id)
        assert metadata.state is LedgerState.OPEN

    run_world(tmp_path, story, bookies=1)


def test_unrecoverable_answer_fails_at_once_though_others_acked(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        listener = Listener()
        writer = await world.client.create_ledger(REPLICATED, listener)
        world.ensemble(writer)[0].fault = fails_with(StatusCode.EFENCED)  # type: ignore[assignment]
        writer.add((b"x",))
        await settle()
        assert isinstance(listener.errors[0], LedgerFenced)

    run_world(tmp_path, story)


def test_limits_refuse_with_nothing_sent(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        writer = await world.client.create_ledger(TINY, Listener())
        (bookie,) = world.ensemble(writer)
        bookie.hold()
        for _ in range(3):
            writer.add((b"",))
        with pytest.raises(OverCapacity, match="3 entries"):
            writer.add((b"",))
        bookie.release()
        await settle()
        bookie.hold()
        writer.add((b"x" * 11,))
        with pytest.raises(OverCapacity, match="11 bytes"):
            writer.add((b"",))
        assert writer.last_add_pushed == 3
        bookie.release()
        await writer.close()

    run_world(tmp_path, story)


def test_failed_writer_tells_its_error_and_not_its_limit(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        writer = await world.client.create_ledger(TINY, Listener())
        world.ensemble(writer)[0].fault = DOWN
        for _ in range(3):
            writer.add((b"",))
        await settle()
        with pytest.raises(BookieUnavailable):
            writer.add((b"",))

    run_world(tmp_path, story, bookies=1)


def test_entry_that_no_bookie_takes_is_refused(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        writer = await world.client.create_ledger(SINGLE, Listener())
        most = MAX_ENTRY_BYTES - 40
        with pytest.raises(LogRecordTooLong):
            writer.add((bytes(most), b"1"))
        assert writer.add((bytes(most),)) == 0
        await writer.close()

    run_world(tmp_path, story)


def test_close_is_idempotent_and_ends_the_adds(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        writer = await world.client.create_ledger(SINGLE, Listener())
        writer.add((b"x",))
        async with asyncio.TaskGroup() as group:
            for _ in range(3):
                group.create_task(writer.close())
        with pytest.raises(Unavailable):
            writer.add((b"y",))
        assert writer.metadata.last_entry_id == 0

    run_world(tmp_path, story)


def test_cancelled_close_can_be_repeated(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        writer = await world.client.create_ledger(SINGLE, Listener())
        (bookie,) = world.ensemble(writer)
        bookie.hold()
        writer.add((b"x",))
        closing = asyncio.get_running_loop().create_task(writer.close())
        await settle()
        closing.cancel()
        await settle()
        bookie.release()
        await writer.close()
        assert (await world.client.ledger_metadata(writer.ledger_id)).last_entry_id == 0

    run_world(tmp_path, story)


def test_close_after_another_closed_it_elsewhere(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        writer = await world.client.create_ledger(SINGLE, Listener())
        writer.add((b"x",))
        await writer._adder.drained()
        await world.new_client().open_ledger(writer.ledger_id, recover=True)
        await writer.close()  # closed at the same end: nothing was lost
        other = await world.client.create_ledger(SINGLE, Listener())
        stored = await other._nodes.read(other.ledger_id)
        await other._nodes.update(stored, lambda m: m.in_recovery())
        with pytest.raises(LedgerFenced):
            await other.close()

    run_world(tmp_path, story)


def test_aborted_writer_leaves_the_ledger_to_recovery(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        listener = Listener()
        writer = await world.client.create_ledger(SINGLE, listener)
        writer.add((b"x",))
        writer.abort()
        writer.abort()
        with pytest.raises(Unavailable):
            await writer.close()
        assert [type(e) for e in listener.errors] == [Unavailable]
        await settle()
        assert listener.confirmed == []
        assert (await world.client.ledger_metadata(writer.ledger_id)).state is LedgerState.OPEN

    run_world(tmp_path, story)


def test_busy_bookie_gets_the_add_again_until_it_takes_it(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        listener = Listener()
        writer = await world.client.create_ledger(SINGLE, listener)
        (bookie,) = world.ensemble(writer)
        busy = iter([StatusCode.ETOOMANYREQUESTS] * 3)
        bookie.fault = lambda request: next(busy, None)
        for i in range(4):
            writer.add((b"%d" % i,))
        await writer.close()
        assert listener.confirmed[-1] == 3
        assert world.client.metrics.add_retries_total == 3
        assert world.client.metrics.adds_total == 4

    run_world(tmp_path, story)


def test_bookie_that_stays_busy_fails_the_writer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adder, "RETRIES_MAX", 2)

    async def story(world: World) -> None:
        writer = await world.client.create_ledger(SINGLE, Listener())
        world.ensemble(writer)[0].fault = fails_with(StatusCode.ETOOMANYREQUESTS)  # type: ignore[assignment]
        writer.add((b"x",))
        with pytest.raises(OverCapacity):
            await writer.close()
        assert world.client.metrics.failed_writers_total == 1

    run_world(tmp_path, story, bookies=1)


def test_aborted_writer_sends_nothing_again(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        writer = await world.client.create_ledger(SINGLE, Listener())
        (bookie,) = world.ensemble(writer)
        bookie.fault = fails_with(StatusCode.ETOOMANYREQUESTS)  # type: ignore[assignment]
        writer.add((b"x",))
        await settle()
        writer.abort()
        await asyncio.sleep(0.02)
        assert len(bookie.requests) == 1

    run_world(tmp_path, story)


def test_dead_bookie_is_logged_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def story(world: World) -> None:
        writer = await world.client.create_ledger(REPLICATED, Listener())
        world.ensemble(writer)[1].fault = DOWN
        for _ in range(50):
            writer.add((b"x",))
        await writer.close()
        assert world.client.metrics.add_failures_total == 50

    run_world(tmp_path, story)
    assert caplog.text.count("add_failed") == 1
