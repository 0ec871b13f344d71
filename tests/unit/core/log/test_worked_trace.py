"""The trace of reference DistributedLog 15.3: what is in the nodes and entries, step by step."""

from pathlib import Path

from tailrace.core.log.log import Log
from tailrace.core.log.rolling import RollingPolicy
from tailrace.protocol.distributedlog.dlsn import DLSN
from tailrace.protocol.distributedlog.record import LogRecord
from tests.unit.core.log.world import Listener, World, entries_of, run_world, settle

ROOT = "/distributedlog/tailrace/s/<default>"
NODES = {"allocation", "ledgers", "lock", "maxtxid", "readLock", "version"}


async def nodes_of(world: World) -> dict[str, str]:
    """Return the nodes below the partition, those of the lock's members left out."""
    tree = await world.dump(ROOT)
    return {
        path.removeprefix(ROOT + "/"): data.decode("latin-1")
        for path, data in tree.items()
        if path != ROOT and not path.startswith(ROOT + "/lock/")
    }


def seen(entries: list[list[LogRecord]]) -> list[tuple[str, int, int]]:
    """Return (payload, position, txid) of each entry; all of them have one record."""
    assert all(len(entry) == 1 for entry in entries)
    return [(bytes(r.payload).decode(), r.position, r.txid) for (r,) in entries]


async def write_with_flush(log: Log, txid: int) -> DLSN:
    """Write one record; its control entry, if it gets one, is written behind it."""
    assert log.writer is not None
    dlsn = await log.writer.write(txid, b"r%d" % txid)
    await settle()
    return dlsn


def test_worked_trace(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await world.log(immediate_flush=True, transmit_buffer_bytes=0)
        empty = await nodes_of(world)
        assert set(empty) == NODES
        assert (empty["maxtxid"], empty["ledgers"], empty["allocation"]) == ("0", "0", "")
        assert empty["version"] == "\xff\xff\xff\xff"
        writer = await log.open_writer(Listener())
        writer.rolling = RollingPolicy(segment_bytes=3 * 22, segment_ms=0)  # due with record 3
        assert await nodes_of(world), "nobody wrote"
        assert writer.last_txid == -999

        dlsns = [await write_with_flush(log, 1)]
        (first,) = log.segments
        nodes = await nodes_of(world)
        assert nodes["ledgers/inprogress_000000000000000001"] == f"5;{first.ledger_id};1;1;0;0;-1"
        assert (nodes["allocation"], nodes["ledgers"], nodes["maxtxid"]) == ("", "1", "0")

        dlsns += [await write_with_flush(log, txid) for txid in (2, 3)]
        await writer._chain.settled()
        assert dlsns[0] == (1, 0, 0)
        assert dlsns == [(1, 0, 0), (1, 2, 0), (1, 4, 0)], "a control entry behind each"
        old, new = log.segments
        nodes = await nodes_of(world)
        assert {name for name in nodes if name.startswith("ledgers/")} == {
            "ledgers/logrecs_000000000000000001",
            "ledgers/inprogress_000000000000000002",
        }
        now_ms = world.clock.now_ms()
        last = dlsns[-1].entry_id
        assert nodes["ledgers/logrecs_000000000000000001"] == (
            f"12884901893;{old.ledger_id};1;3;{now_ms};1;{last};0;0;0;0"
        )
        assert nodes["ledgers/inprogress_000000000000000002"] == f"5;{new.ledger_id};3;2;0;0;-1"
        assert (nodes["allocation"], nodes["ledgers"], nodes["maxtxid"]) == ("", "2", "3")
        entries = seen(await entries_of(world, log, 1))
        assert [entry for entry in entries if entry[0] != "control"] == [
            ("r1", 1, 1),
            ("r2", 2, 2),
            ("r3", 3, 3),
        ]
        assert entries[:4] == [("r1", 1, 1), ("control", 1, 1), ("r2", 2, 2), ("control", 2, 2)]

        assert await write_with_flush(log, 4) == DLSN(2, 1, 0)
        await writer.close()
        assert seen(await entries_of(world, log, 2))[:2] == [("control", 0, 3), ("r4", 1, 4)]
        nodes = await nodes_of(world)
        assert nodes["ledgers/logrecs_000000000000000002"] == (
            f"{1 << 32 | 5};{new.ledger_id};3;4;{now_ms};2;1;0;0;0;3"
        )
        assert (nodes["allocation"], nodes["ledgers"], nodes["maxtxid"]) == ("", "2", "4")

    run_world(tmp_path, story)
