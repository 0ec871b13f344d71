"""When records are sent, and when a control record tells of them."""

import asyncio
from pathlib import Path

import pytest

from tailrace.core.log.config import ENTRY_RECORDS_BYTES_MAX, LogConfig, TransmitMode
from tailrace.core.log.transmit import ControlPolicy, TransmitPolicy
from tailrace.protocol.distributedlog.dlsn import INITIAL
from tailrace.protocol.distributedlog.record import KEEP_ALIVE_PAYLOAD, LogRecord
from tests.unit.core.log.world import (
    Listener,
    World,
    entries_of,
    put,
    run_world,
    settle,
    txids_of,
    write,
)

FOR_EVER_MS = 3_600_000


def kinds(entries: list[list[LogRecord]]) -> list[int | str]:
    """Return how many user records each entry has, or what its control record says."""
    return [
        bytes(entry[0].payload).decode() if entry[0].is_control else len(entry) for entry in entries
    ]


@pytest.mark.parametrize(
    ("settings", "policy"),
    [
        ({}, TransmitPolicy.immediate()),
        ({"transmit_policy": TransmitMode.IMMEDIATE, "transmit_buffer_bytes": 9}, (0, 0)),
        (
            {"transmit_policy": TransmitMode.PERIODIC, "transmit_interval_ms": 7},
            (ENTRY_RECORDS_BYTES_MAX, 7),
        ),
        (
            {"transmit_policy": TransmitMode.BUFFERED, "transmit_buffer_bytes": 9},
            TransmitPolicy.buffered(9, 10),
        ),
        # DistributedLog's own switches: its default, with and without its timer
        ({"transmit_buffer_bytes": 1024, "control_flush_ms": 0}, (1024, 0)),
        ({"transmit_buffer_bytes": 1024, "control_flush_ms": 9}, (1024, 5)),
        ({"transmit_buffer_bytes": 10**9, "control_flush_ms": 1}, (ENTRY_RECORDS_BYTES_MAX, 1)),
    ],
)
def test_what_the_settings_say(settings: dict[str, int], policy: tuple[int, int]) -> None:
    assert TransmitPolicy.of(LogConfig(**settings)) == policy  # type: ignore[arg-type]


def test_control_settings() -> None:
    config = LogConfig(
        immediate_flush=True, immediate_flush_delay_ms=3, control_flush_ms=4, keep_alive_ms=5
    )
    assert ControlPolicy.of(config) == (True, 3, 4, 5)
    assert ControlPolicy.of(LogConfig()) == (False, 0, 100, 0)


def test_impossible_policies() -> None:
    for make in (
        lambda: TransmitPolicy.periodic(0),
        lambda: TransmitPolicy.buffered(0),
        lambda: TransmitPolicy.buffered(10, -1),
    ):
        with pytest.raises(ValueError, match=r"\d"):
            make()


@pytest.mark.parametrize(
    "policy", [TransmitPolicy.periodic(FOR_EVER_MS), TransmitPolicy.buffered(10_000, FOR_EVER_MS)]
)
def test_records_wait_for_the_interval(tmp_path: Path, policy: TransmitPolicy) -> None:
    async def story(world: World) -> None:
        log = await world.log()
        listener = Listener()
        writer = await log.open_writer(listener)
        writer.set_policy(policy)
        await write(writer, 0)  # flush does not wait for the policy
        for txid in range(1, 4):
            put(writer, txid)
            await settle()
        assert listener.last == 0
        writer.set_policy(policy._replace(interval_ms=1))
        await listener.reached(3)
        await writer.close()
        assert kinds(await entries_of(world, log, 1)) == [1, 3]

    run_world(tmp_path, story)


def test_a_full_entry_does_not_wait_for_the_interval(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await world.log()
        listener = Listener()
        writer = await log.open_writer(listener)
        await write(writer, 0)
        writer.set_policy(TransmitPolicy.periodic(FOR_EVER_MS))
        for txid in range(1, 3):
            put(writer, txid, b"x" * 600_000)
        await listener.reached(2)
        await writer.close()

    run_world(tmp_path, story)


def test_buffered_records_go_when_more_than_enough_wait(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await world.log(transmit_buffer_bytes=60)  # two records of 30 bytes with header
        listener = Listener()
        writer = await log.open_writer(listener)
        await write(writer, 0)
        for txid in range(1, 8):
            put(writer, txid, b"0123456789")
            await settle()
        assert listener.confirmed == [0, 3, 6]
        await writer.close()
        assert listener.last == 7

    run_world(tmp_path, story)


def test_policies_change_while_records_wait(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await world.log()
        listener = Listener()
        writer = await log.open_writer(listener)
        await write(writer, 0)
        writer.set_policy(TransmitPolicy.buffered(1_000_000))
        put(writer, 1)
        await settle()
        writer.set_policy(TransmitPolicy.buffered(10))  # more wait than that
        await listener.reached(1)
        put(writer, 2, b"")
        put(writer, 3, b"")
        writer.set_policy(TransmitPolicy.buffered(1_000_000))
        put(writer, 4)
        await settle()
        assert listener.last == 3
        writer.set_policy(TransmitPolicy.immediate())
        await listener.reached(4)
        await writer.close()
        assert await txids_of(log) == [0, 1, 2, 3, 4]

    run_world(tmp_path, story)


def test_immediate_flush_tells_of_each_record_that_nothing_follows(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await world.log(immediate_flush=True)
        writer = await log.open_writer(Listener())
        await write(writer, 0)
        await settle()
        await write(writer, 1)
        await settle()
        for txid in (2, 3, 4):  # a busy stream: the next entry tells of the one before
            put(writer, txid)
            await asyncio.sleep(0)
        await writer.flush()
        await settle()
        await writer.close()
        found = kinds(await entries_of(world, log, 1))
        assert found == [1, "control", 1, "control", 1, 1, 1, "control"]

    run_world(tmp_path, story)


def test_immediate_flushes_keep_their_distance(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await world.log(immediate_flush=True, immediate_flush_delay_ms=FOR_EVER_MS)
        writer = await log.open_writer(Listener())
        for txid in range(4):
            await write(writer, txid)
            await settle()
        await writer.close()
        assert kinds(await entries_of(world, log, 1)) == [1, "control", 1, 1, 1]

    run_world(tmp_path, story)


def test_immediate_flush_sends_what_waits_instead_of_a_control_record(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await world.log(immediate_flush=True, transmit_buffer_bytes=10_000)
        writer = await log.open_writer(Listener())
        await write(writer, 0)
        await settle()
        world.bookie.hold()
        put(writer, 1)
        flushing = asyncio.create_task(writer.flush())
        await settle()
        put(writer, 2)  # waits for more
        world.bookie.release()
        await flushing
        await settle()
        await writer.close()
        assert kinds(await entries_of(world, log, 1)) == [1, "control", 1, 1, "control"]

    run_world(tmp_path, story)


def test_quiet_writers_keep_their_readers_awake(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await world.log(keep_alive_ms=2)
        writer = await log.open_writer(Listener())
        await write(writer, 0)
        before = len(world.bookie.requests)
        while len(world.bookie.requests) < before + 3:  # noqa: ASYNC110 - the bookie has no event
            await asyncio.sleep(0)
        await writer.close()
        records = [record for entry in await entries_of(world, log, 1) for record in entry]
        assert [r.txid for r in records] == [0] * len(records)
        assert {bytes(r.payload) for r in records if r.is_control} == {KEEP_ALIVE_PAYLOAD}
        assert [r.position for r in records if r.payload == KEEP_ALIVE_PAYLOAD][:3] == [1, 1, 1]
        assert await txids_of(log) == [0]

    run_world(tmp_path, story)


async def readable_elsewhere(world: World) -> list[int]:
    return await txids_of(await world.log(client_id="other"))


def test_what_is_committed_can_be_read_by_every_process(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await world.log()
        writer = await log.open_writer(Listener())
        await writer.commit()  # nothing to tell of
        await write(writer, 0, 1)
        assert await readable_elsewhere(world) == []
        await writer.commit()
        assert await readable_elsewhere(world) == [0, 1]
        sent = len(world.bookie.requests)
        await writer.commit()
        assert len(world.bookie.requests) == sent, "there was no news"
        put(writer, 2)
        await writer.commit()
        assert await readable_elsewhere(world) == [0, 1, 2]
        await writer.roll()
        put(writer, 3)
        await writer.commit()
        assert await readable_elsewhere(world) == [0, 1, 2, 3]
        await writer.close()

    run_world(tmp_path, story)


def test_records_that_were_in_flight_at_a_commit_are_told_of_by_the_next(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await world.log()
        writer = await log.open_writer(Listener())
        await write(writer, 0)
        world.bookie.hold()
        put(writer, 1)
        committing = asyncio.create_task(writer.commit())
        await settle()
        put(writer, 2)
        await settle()
        world.bookie.release(1)  # record 1 alone: the control record for it does not tell of 2
        await settle()
        world.bookie.release()
        await committing
        await writer.flush()
        await writer.commit()
        assert await readable_elsewhere(world) == [0, 1, 2]
        await writer.close()

    run_world(tmp_path, story)


def test_control_policies_change(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await world.log()
        writer = await log.open_writer(Listener())
        await write(writer, 0)
        await settle()
        writer.set_control_policy(ControlPolicy(is_immediate=True))  # record 0 is unpublished yet
        await settle()
        assert await readable_elsewhere(world) == [0]
        writer.set_control_policy(ControlPolicy())
        await write(writer, 1)
        await settle()
        assert await readable_elsewhere(world) == [0]
        writer.set_control_policy(ControlPolicy(quiet_ms=1))
        reader = await (await world.log(client_id="other", lac_poll_ms=1)).open_reader(INITIAL)
        found: list[int] = []
        while len(found) < 2:
            await reader.wait_for_more()
            found += [record.txid for _, record in await reader.read(1000)]
        await reader.close()
        await writer.close()

    run_world(tmp_path, story)
