"""Reads from real bookies over TCP: one of them is stopped; the tail of a ledger in writing."""

import asyncio
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from tailrace.core.ledger.config import LedgerConfig, ReadConfig
from tailrace.core.ledger.reader import LedgerReader
from tests.cluster.test_ledger_over_tcp import (
    REPLICATED,
    STRIPED,
    Cluster,
    Listener,
    payload_of,
    run,
    write_until,
)

pytestmark = pytest.mark.crash

QUICK = ReadConfig(speculative_timeout_ms=200, long_poll_speculative_timeout_ms=200)
ON_ALL_THREE = replace(REPLICATED, ack_quorum=3)
"""What is confirmed is on every bookie: a read that one of them does not answer is its silence,
never an entry that has not come to it yet."""


async def follow(reader: LedgerReader, first: int, confirmed: Listener) -> int:
    """Read on at the tail until the ledger is closed; return how many waits it took."""
    waits, following = 0, first
    while not (reader.is_closed and following > reader.last_confirmed):
        lac_before = reader.last_confirmed
        lac, entry = await reader.read_last_confirmed_and_entry(following, 2000)
        waits += 1
        # What the reader knows, the writer had confirmed before.
        assert lac_before <= lac <= confirmed.lac
        if entry is not None:
            assert entry.entry_id == following <= lac
            assert bytes(entry.payload) == payload_of(following)
            following += 1
    return waits


def test_stopped_bookie_does_not_stop_reads(tmp_path: Path) -> None:
    """No answer, no lost connection: only speculation helps before the request's time-out."""

    async def story(cluster: Cluster) -> None:
        listener = Listener()
        writer = await cluster.new_client().create_ledger(ON_ALL_THREE, listener)
        await write_until(writer, listener, 300)
        await writer.close()
        client = cluster.new_client(QUICK)
        reader = await client.open_ledger(writer.ledger_id, recover=False)
        await reader.read(0, 5)  # all three are connected
        stopped = cluster.ensemble(writer)[0]
        stopped.signal(signal.SIGSTOP)
        try:
            for first in range(0, 300, 20):
                entries = await reader.read(first, first + 19)
                assert [bytes(e.payload) for e in entries] == [
                    payload_of(i) for i in range(first, first + 20)
                ]
            assert client.metrics.speculative_reads_total > 0
            assert client.metrics.replica_failures_total == 0, "a time-out was waited for"
        finally:
            stopped.signal(signal.SIGCONT)

    run(tmp_path, 3, story)


@pytest.mark.parametrize("config", [REPLICATED, STRIPED], ids=["replicated", "striped"])
@pytest.mark.parametrize("stops", [False, True], ids=["healthy", "stopped"])
def test_follower_sees_every_confirmed_entry_once(
    tmp_path: Path, config: LedgerConfig, stops: bool
) -> None:
    async def story(cluster: Cluster) -> None:
        listener = Listener()
        writer = await cluster.new_client().create_ledger(config, listener)
        await write_until(writer, listener, 20)
        reader = await cluster.new_client(QUICK).open_ledger(writer.ledger_id, recover=False)
        stopped = cluster.ensemble(writer)[1]
        async with asyncio.TaskGroup() as group:
            following = group.create_task(follow(reader, 0, listener))
            if stops:
                stopped.signal(signal.SIGSTOP)
            for end in range(40, 200, 20):
                await write_until(writer, listener, end)
                await listener.reach(writer.last_add_pushed)
            await writer.close()
            waits = await following
        if stops:
            stopped.signal(signal.SIGCONT)
        assert reader.last_confirmed == listener.lac == writer.last_add_pushed
        assert waits >= writer.last_add_pushed

    run(tmp_path, 3, story)
