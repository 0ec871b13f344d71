"""kill -9 of either side's writer; the other side finds what was acknowledged, and goes on."""

import asyncio
from pathlib import Path

import pytest

from tailrace.protocol.distributedlog.dlsn import INITIAL
from tests.interop.bookkeeper.ours import run
from tests.interop.distributedlog.conftest import Opener, java_peer
from tests.interop.distributedlog.java import JavaLog
from tests.interop.distributedlog.our_writer import OurWriter
from tests.interop.distributedlog.ours import (
    Listener,
    Place,
    our_logs,
    put,
    read,
    read_on,
    write_segment,
)
from tests.interop.distributedlog.records import check
from tests.java.peers import JavaError

pytestmark = [pytest.mark.interop, pytest.mark.java, pytest.mark.crash]
ENOUGH = 200
AFTER = 10
WAITS = {"lockTimeoutSeconds": 30}
SHORT_SESSION = {"zkSessionTimeoutSeconds": 1}


def test_java_recovers_what_our_killed_writer_left(
    place: Place, opener: Opener, name: str, tmp_path: Path
) -> None:
    async def story() -> None:
        java = opener(name, WAITS)
        await java.ask("create")
        with OurWriter(place.uri, name, 11, 1, tmp_path / "log") as killed:
            await asyncio.to_thread(killed.reach, ENOUGH)
            acknowledged = max(ENOUGH, killed.kill())
        writer = await java.wait_for_ownership()
        last = (await java.ask("numbers"))["last_txid"]
        assert last >= acknowledged
        await writer.write(11, last + 1, AFTER)
        await writer.close()
        everything = await java.read(last + AFTER)
        check(everything, 11, range(1, last + AFTER + 1))
        async with our_logs(place) as logs:
            assert await read(await logs.open_log(name), last + AFTER) == everything

    run(story)


def test_we_recover_what_javas_killed_writer_left(
    place: Place, opener: Opener, name: str, tmp_path: Path
) -> None:
    async def story() -> None:
        java = opener(name)
        await java.ask("create")
        doomed = java_peer(tmp_path / "log")
        doomed.call("connect", client="doomed", uri=place.uri, conf=SHORT_SESSION)
        writer = await JavaLog(doomed, "doomed", name).open_writer()
        await writer.write(12, 1, ENOUGH)
        burst = asyncio.create_task(writer.write(12, ENOUGH + 1, 20 * ENOUGH))
        acknowledged = (await writer.ask("acked"))["txid"]
        assert not burst.done()
        doomed.kill()
        with pytest.raises((AssertionError, JavaError)):
            await burst
        async with our_logs(place, lock_timeout_s=30) as logs:
            log = await logs.open_log(name)
            ours = await log.open_writer(Listener())
            last = ours.last_txid
            assert last >= acknowledged
            await put(ours, 12, last + 1, AFTER)
            await ours.close()
            everything = await read(log, last + AFTER)
        check(everything, 12, range(1, last + AFTER + 1))
        assert await java.read(last + AFTER) == everything

    run(story)


def test_javas_reader_goes_on_when_java_recovers_what_we_left(
    place: Place, opener: Opener, name: str, tmp_path: Path
) -> None:
    async def story() -> None:
        java = opener(name, WAITS)
        await java.ask("create")
        reader = await java.open_reader()
        with OurWriter(place.uri, name, 16, 1, tmp_path / "log") as killed:
            await asyncio.to_thread(killed.reach, ENOUGH)
            seen = await reader.read(ENOUGH)
            killed.kill()
        writer = await java.wait_for_ownership()
        last = (await java.ask("numbers"))["last_txid"]
        await writer.write(16, last + 1, AFTER)
        await writer.close()
        seen += await reader.read(last + AFTER - len(seen))
        await reader.close()
        check(seen, 16, range(1, last + AFTER + 1))

    run(story)


def test_our_reader_goes_on_when_we_recover_what_java_left(
    place: Place, opener: Opener, name: str
) -> None:
    async def story() -> None:
        java = opener(name)
        await java.ask("create")
        async with our_logs(place) as logs, our_logs(place) as others:
            reader = await (await others.open_log(name)).open_reader(INITIAL)
            theirs = await java.open_writer()
            await theirs.write(17, 1, ENOUGH)
            seen = await read_on(reader, ENOUGH)
            await theirs.abort()
            await write_segment(await logs.open_log(name), 17, ENOUGH + 1, AFTER)
            seen += await read_on(reader, AFTER)
            await reader.close()
            check(seen, 17, range(1, ENOUGH + AFTER + 1))

    run(story)
