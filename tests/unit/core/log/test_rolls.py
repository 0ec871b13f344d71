"""Rolls that meet something: the metadata store away, no permit, a bug of our own."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tailrace.core.errors import CoreError, Unavailable
from tailrace.core.log import record_sender, rolling, segment_chain
from tailrace.core.log.rolling import ROLL_RETRY_MS, RollingPolicy, RollPhase
from tailrace.core.log.writer import LogWriter
from tailrace.core.metadata.store import Node, Op
from tests.unit.core.log.faulty_store import FaultyStore
from tests.unit.core.log.world import (
    Listener,
    RecordState,
    World,
    put,
    run_world,
    settle,
    txids_of,
    write,
)


@pytest.fixture(autouse=True)
def quick_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment_chain, "STEP_RETRY_S", 0.001)


class AwayStore(FaultyStore):
    """A store that is away whenever a step of a roll asks; `applied`: only its answers are lost."""

    def __init__(self, world: World, *, applied: bool = False) -> None:
        super().__init__(world.store)
        self.step = ""
        """A part of the path of a node that the step makes; empty: the store is there."""
        self.refusals = 0
        self.applied = applied
        self.is_away = False
        """Whether it answers nothing at all."""

    def _check(self) -> None:
        super()._check()
        if self.is_away:
            raise Unavailable("the store is away")

    async def multi(self, ops: Sequence[Op]) -> list[int]:
        is_away = self.step and any(self.step in op.path for op in ops)
        if not is_away:
            return await super().multi(ops)
        self.refusals += 1
        if self.applied and self.refusals == 1:
            await super().multi(ops)
        raise Unavailable("the store is away")

    async def get_all(self, paths: Sequence[str]) -> list[Node | None]:
        if self.step and self.refusals:
            raise Unavailable("the store is away")
        return await super().get_all(paths)

    async def refused(self, times: int) -> None:
        while self.refusals < times:  # noqa: ASYNC110 - the store has no event
            await asyncio.sleep(0.0005)


async def opened(world: World, store: FaultyStore) -> tuple[LogWriter, Listener, RecordState]:
    namespace = world.namespace(store)
    await namespace.create_log("s")
    listener, state = Listener(), RecordState()
    writer = await (await namespace.open_log("s")).open_writer(listener, state)
    await write(writer, 0)
    return writer, listener, state


def test_a_roll_that_has_not_begun_is_put_off_while_the_store_is_away(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        store = AwayStore(world)
        writer, listener, _ = await opened(world, store)
        writer.rolling = RollingPolicy(segment_bytes=1, segment_ms=0)
        store.is_away = True
        for txid in (1, 2, 3):
            await write(writer, txid)
            await writer._chain.settled()
        assert (writer.lssn, listener.last, listener.errors) == (1, 3, [])
        store.is_away = False
        await write(writer, 4)
        assert writer.lssn == 1, "it is not asked at every record"
        world.clock.advance_ms(ROLL_RETRY_MS)
        await write(writer, 5)
        await writer._chain.settled()
        await write(writer, 6)
        assert writer.lssn == 2
        await writer.close()
        log = await world.log(client_id="other")
        assert await txids_of(log) == list(range(7))

    run_world(tmp_path, story)


@pytest.mark.parametrize("applied", [False, True])
def test_a_start_waits_for_the_store_and_records_for_the_start(
    tmp_path: Path, *, applied: bool
) -> None:
    async def story(world: World) -> None:
        store = AwayStore(world, applied=applied)
        writer, listener, _ = await opened(world, store)
        store.step = "inprogress_000000000000000002"
        rolling = asyncio.create_task(writer.roll())
        await store.refused(1)
        put(writer, 1)
        await store.refused(4)
        assert (listener.last, listener.errors) == (0, [])
        assert writer._chain.roll.phase is RollPhase.STARTING
        store.step = ""
        await rolling
        await writer.flush()
        await writer.close()
        log = await world.log(client_id="other")
        assert await txids_of(log) == [0, 1]
        assert [s.record_count for s in log.segments] == [1, 1]
        assert len(world.bookie.ledgers) == 2, "a ledger was lost"

    run_world(tmp_path, story)


@pytest.mark.parametrize("applied", [False, True])
def test_records_flow_while_a_completion_waits_for_the_store(
    tmp_path: Path, *, applied: bool
) -> None:
    async def story(world: World) -> None:
        store = AwayStore(world, applied=applied)
        writer, listener, _ = await opened(world, store)
        store.step = "logrecs_000000000000000001"
        rolling = asyncio.create_task(writer.roll())
        await store.refused(1)
        await write(writer, 1, 2)
        await store.refused(4)
        assert (listener.last, listener.errors) == (2, [])
        assert writer.lssn == 2
        store.step = ""
        await rolling
        await write(writer, 3)
        await writer.close()
        log = await world.log(client_id="other")
        assert await txids_of(log) == [0, 1, 2, 3]
        assert [s.start_sequence_id for s in log.segments] == [0, 1]

    run_world(tmp_path, story)


@pytest.mark.parametrize("step", ["inprogress_000000000000000002", "logrecs_000000000000000001"])
def test_closing_does_not_wait_for_a_store_that_is_away(tmp_path: Path, step: str) -> None:
    async def story(world: World) -> None:
        store = AwayStore(world)
        writer, _, _ = await opened(world, store)
        segment_chain.STEP_RETRY_S = 3600.0
        store.step = step
        rolling = asyncio.create_task(writer.roll())
        await store.refused(1)
        await settle()
        put(writer, 1)
        with pytest.raises(Unavailable):
            await writer.close()
        with pytest.raises(Unavailable):
            await rolling
        log = await world.log(client_id="next")
        state = RecordState()
        again = await log.open_writer(Listener(), state)
        assert state.txids in ([0], [0, 1])
        await write(again, 2)
        await again.close()
        assert await txids_of(log) == [*state.txids[:-1], 2]

    run_world(tmp_path, story)


@pytest.mark.parametrize("step", ["inprogress_000000000000000002", "logrecs_000000000000000001"])
def test_a_store_that_stays_away_ends_the_writer(
    tmp_path: Path, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segment_chain, "START_ATTEMPTS", 3)
    monkeypatch.setattr(segment_chain, "COMPLETE_ATTEMPTS", 5)

    async def story(world: World) -> None:
        store = AwayStore(world)
        writer, listener, _ = await opened(world, store)
        store.step = step
        with pytest.raises(Unavailable):
            await writer.roll()
        assert store.refusals == (3 if step.startswith("inprogress") else 5)
        assert len(listener.errors) == 1
        with pytest.raises(Unavailable):
            put(writer, 1)
        await writer.abort()
        log = await world.log(client_id="next")
        again = await log.open_writer(Listener())
        await write(again, 1)
        await again.close()
        assert await txids_of(log) == [0, 1]

    run_world(tmp_path, story)


@pytest.mark.parametrize("where", ["allocate", "start", "switch", "complete"])
def test_a_bug_in_a_roll_does_not_freeze_the_log(
    tmp_path: Path, where: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(world: World) -> None:
        writer, listener, state = await opened(world, FaultyStore(world.store))
        chain = writer._chain

        def bug(*_: object) -> object:
            raise RuntimeError("a bug")

        breaking: dict[str, tuple[object, str]] = {
            "allocate": (chain._allocator, "allocate"),
            "start": (chain._nodes, "start"),
            "switch": (state, "snapshot"),
            "complete": (chain._nodes, "complete"),
        }
        setattr(*breaking[where], bug)
        with pytest.raises(CoreError, match="a bug"):
            await writer.roll()
        assert len(listener.errors) == 1
        assert "RuntimeError: a bug" in caplog.text
        with pytest.raises(CoreError, match="a bug"):
            put(writer, 1)
        await writer.abort()
        log = await world.log(client_id="next")
        again = await log.open_writer(Listener(), RecordState())
        await write(again, 1)
        await again.close()
        assert await txids_of(log) == [0, 1]

    run_world(tmp_path, story)


def test_logs_share_the_permits_to_roll(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        namespace = world.namespace(rolls_per_minute=1)
        writers = []
        for name in ("a", "b"):
            await namespace.create_log(name)
            writer = await (await namespace.open_log(name)).open_writer(Listener())
            writer.rolling = RollingPolicy(segment_bytes=1, segment_ms=0)
            writers.append(writer)
        for txid in range(3):
            for writer in writers:
                await write(writer, txid)
                await writer._chain.settled()
        assert [writer.lssn for writer in writers] == [2, 1], "one of them, once"
        world.clock.advance_ms(60_000)
        for writer in reversed(writers):
            await write(writer, 3)
            await writer._chain.settled()
        assert [writer.lssn for writer in writers] == [2, 2]
        await writers[0].roll()  # who asks for it needs no permit
        await write(writers[0], 4)
        assert writers[0].lssn == 3
        for writer in writers:
            await writer.close()

    run_world(tmp_path, story)


def test_a_policy_of_the_settings_rolls_by_age(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await world.log(segment_minutes=2, segment_bytes=0)
        writer = await log.open_writer(Listener())
        lssns: list[int] = []
        after: Callable[[int], None] = world.clock.advance_ms
        for txid in range(5):
            await write(writer, txid)
            await writer._chain.settled()
            lssns.append(writer.lssn)
            after(60_000)
        await writer.close()
        assert lssns == [1, 1, 2, 2, 3]

    run_world(tmp_path, story)


def test_a_segment_without_limits_is_rolled_before_its_positions_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_sender, "SEGMENT_RECORDS_MAX", 3)
    monkeypatch.setattr(rolling, "SEGMENT_RECORDS_MAX", 3)

    async def story(world: World) -> None:
        log = await world.log(segment_minutes=0, segment_bytes=0)
        writer = await log.open_writer(Listener())
        for txid in range(7):
            await write(writer, txid)
            await writer._chain.settled()
        await writer.close()
        assert [s.record_count for s in log.segments] == [3, 3, 1]

    run_world(tmp_path, story)


def test_a_bug_while_sending_lets_no_record_follow(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        writer, listener, state = await opened(world, FaultyStore(world.store))

        def bug(*_: object) -> None:
            raise RuntimeError("a bug")

        heard: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: heard.append(context))
        setattr(state, "observe", bug)  # noqa: B010 - the state of an owner with a bug
        put(writer, 1)
        await settle()
        assert len(listener.errors) == len(heard) == 1
        with pytest.raises(CoreError, match="a bug"):
            put(writer, 2)
        await writer.abort()
        log = await world.log(client_id="next")
        again = await log.open_writer(Listener(), RecordState())
        await again.close()
        assert await txids_of(log) == [0]

    run_world(tmp_path, story)


def test_what_follows_a_segment_is_read_once_that_is_completed(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        store = FaultyStore(world.store)
        namespace = world.namespace(store)
        await namespace.create_log("s")
        log = await namespace.open_log("s")
        writer = await log.open_writer(Listener())
        await write(writer, 0)
        answers = asyncio.Event()

        async def hold(_: int) -> None:
            if len(log.segments) == 2:  # all that is left is to complete the first
                await answers.wait()

        store.before = hold
        rolling = asyncio.create_task(writer.roll())
        while len(log.segments) < 2:
            await settle()
        await write(writer, 1, 2)
        assert await txids_of(log) == [0]
        answers.set()
        assert await txids_of(log, at_least=3) == [0, 1, 2]
        await rolling
        await writer.close()

    run_world(tmp_path, story)
