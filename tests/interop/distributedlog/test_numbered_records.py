"""What a write proxy keeps of its writers' numbers: Java's library passes it over, whatever it
asks, and what it recovers still tells the next proxy which numbers the log has."""

from random import Random
from typing import TYPE_CHECKING, Final

import pytest

from tailrace.core.log import state_deltas
from tailrace.core.log.namespace import LogNamespace
from tailrace.core.runtime.clock import SystemClock
from tailrace.protocol.distributedlog.record_set import pack_record_set
from tailrace.proxy.owner.codes import StatusCode
from tailrace.proxy.owner.config import OwnerConfig
from tailrace.proxy.owner.location import ProxyLocation
from tailrace.proxy.owner.operations import WriterSequence
from tailrace.proxy.owner.streams import Streams
from tests.interop.bookkeeper.ours import run
from tests.interop.distributedlog.conftest import Opener
from tests.interop.distributedlog.ours import SESSION_MS, Place, our_logs, read
from tests.interop.distributedlog.records import check_positions

if TYPE_CHECKING:
    import asyncio

    from tailrace.proxy.owner.operations import Answer

pytestmark = [pytest.mark.interop, pytest.mark.java]
COUNT: Final = 120
AFTER: Final = 10
JAVA: Final = {"positionGapDetectionEnabled": True, "lockTimeoutSeconds": 30}
WRITERS: Final = (b"a", b"b" * 64, None)


def new_streams(logs: LogNamespace, shard: int) -> Streams:
    location = ProxyLocation(shard, "host", 4000 + shard)
    return Streams(logs, location, SystemClock(), OwnerConfig(), session_timeout_ms=SESSION_MS)


class Asked:
    """Writes of two writers and of none; `again` asks for the same numbers."""

    def __init__(self, seed: int) -> None:
        rng = Random(seed)
        numbers = dict.fromkeys(WRITERS, 0)
        self.writes: list[tuple[WriterSequence | None, bytes, bool]] = []
        self.values = 0
        for at in range(COUNT):
            writer_id = rng.choice(WRITERS)
            writer = writer_id and WriterSequence(writer_id, numbers[writer_id])
            numbers[writer_id] += 1
            is_set = rng.random() < 0.2
            payload = b"%d" % at
            self.writes.append(
                (writer or None, pack_record_set([payload] * 3) if is_set else payload, is_set)
            )
            self.values += 3 if is_set else 1

    async def ask(self, streams: Streams, name: str, *, numbered_only: bool) -> "list[Answer]":
        asked: list[asyncio.Future[Answer]] = []
        for at, (writer, payload, is_set) in enumerate(self.writes):
            if writer is not None or not numbered_only:
                asked.append(streams.write(name, payload, is_record_set=is_set, writer=writer))
            if at % 7 == 0:
                await streams.heartbeat(name, to_readers=at % 21 == 0)
        return [await each for each in asked]


def test_java_passes_over_the_numbers_and_keeps_them(
    place: Place, opener: Opener, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state_deltas, "PACE_BYTES", 5 * state_deltas.ENTRY_COST_BYTES)
    asked = Asked(1)

    async def story() -> None:
        java = opener(name, JAVA)
        await java.ask("create")
        async with our_logs(place, lock_timeout_s=0) as logs:
            streams = new_streams(logs, 1)
            answers = await asked.ask(streams, name, numbered_only=False)
            assert {answer.code for answer in answers} == {StatusCode.SUCCESS}
            await streams.heartbeat(name, to_readers=True)
            log = await logs.open_log(name)
            ours = await read(log, asked.values)
            seen = await java.read(asked.values)
            assert seen == ours
            check_positions(seen)
            assert [record.dlsn.slot for record in seen] != [0] * asked.values
            for record in ours[:: asked.values // 8]:
                first = next(each for each in ours if each.txid >= record.txid)
                assert await java.read(1, txid=record.txid) == [first]
                assert await java.read(1, dlsn=record.dlsn) == [record]
            assert log.writer is not None
            await log.writer.abort()
        theirs = await java.open_writer()  # it recovers a log that ends with numbers
        last = (await java.ask("numbers"))["last_txid"]
        assert last == ours[-1].txid
        await theirs.write(1, last + 1, AFTER)
        await theirs.close()
        async with our_logs(place, lock_timeout_s=0) as logs:
            streams = new_streams(logs, 2)
            again = await asked.ask(streams, name, numbered_only=True)
            numbered = zip(asked.writes, answers, strict=True)
            first = [answer for (writer, _, _), answer in numbered if writer is not None]
            assert [each.code for each in again] == [each.code for each in first]
            known = [(a, b) for a, b in zip(again, first, strict=True) if a.dlsn is not None]
            assert known
            assert all(a == b for a, b in known)
            await streams.close()
            everything = await read(await logs.open_log(name), asked.values + AFTER)
        assert everything[: asked.values] == ours
        assert await java.read(asked.values + AFTER) == everything
        assert await java.count() == asked.values + AFTER
        segments = await java.segments()
        assert segments[0]["count"] == asked.values, segments

    run(story)
