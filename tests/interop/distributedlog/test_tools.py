"""Each side's repair tool agrees with what the other writes about segments, down to the byte."""

import asyncio
from dataclasses import replace

import pytest

from tailrace.core.log.log import Log
from tailrace.core.log.open_namespace import OpenNamespace
from tailrace.core.metadata.bindings import bind_namespace
from tailrace.core.metadata.layout import LogPaths
from tailrace.core.metadata.namespace_binding import BKDLConfig
from tailrace.core.metadata.segment_metadata import completed_name, decode_segment, encode_segment
from tests.cluster.cli import output, tailrace
from tests.interop.bookkeeper.ours import run
from tests.interop.distributedlog.conftest import Opener
from tests.interop.distributedlog.ours import Listener, Place, our_namespace, put
from tests.interop.distributedlog.records import payload
from tests.java.peers import JavaClient
from tests.unit.core.log.world import RecordState

pytestmark = [pytest.mark.interop, pytest.mark.java]
COUNT = 10


async def write_segments(log: Log) -> None:
    """Write three segments with an owner's notes around them; the second is recovered."""
    writer = await log.open_writer(Listener(), RecordState())
    await put(writer, 81, 1, COUNT)
    await writer.roll()
    await put(writer, 81, COUNT + 1, COUNT)
    await writer.commit()
    await writer.abort()
    writer = await log.open_writer(Listener(), RecordState())
    await put(writer, 81, 2 * COUNT + 1, COUNT)
    await writer.close()
    writer = await log.open_writer(Listener())
    await writer.append_set(3 * COUNT + 1, [payload(f"81/set/{i}") for i in range(COUNT)])
    await writer.close()


async def nodes(opened: OpenNamespace, paths: LogPaths) -> dict[str, bytes]:
    """Return the metadata of all segments."""
    names = await opened.store.children(paths.segments)
    return {name: (await opened.store.get(f"{paths.segments}/{name}")).data for name in names}


async def damage(opened: OpenNamespace, paths: LogPaths, lssns: tuple[int, ...]) -> None:
    """Let segments say that they end with their first record."""
    for lssn in lssns:
        path = f"{paths.segments}/{completed_name(lssn)}"
        segment = decode_segment((await opened.store.get(path)).data)
        short = replace(segment, record_count=1, last_txid=segment.first_txid, last_entry_id=0)
        await opened.store.set(path, encode_segment(short))


def test_dlck_finds_nothing_in_our_log_and_restores_what_was_damaged(
    java: JavaClient, place: Place, name: str
) -> None:
    uri = f"{place.uri}-{name}"
    dlck = ["dlck", "-u", uri, "-f"]

    async def story() -> None:
        async with our_namespace(place.uri) as opened:
            binding = BKDLConfig(bk_zk_servers=place.hosts, bk_ledgers_path=place.ledgers)
            await bind_namespace(opened.store, f"{place.path}-{name}", binding)
        async with our_namespace(uri) as opened:
            await opened.logs.create_log("checked")
            await write_segments(await opened.logs.open_log("checked"))
            paths = LogPaths(f"{place.path}-{name}", "checked")
            written = await nodes(opened, paths)
            assert len(written) == 4
            assert java.call("admin", words=dlck)["exit"] == 0
            assert await nodes(opened, paths) == written
            await damage(opened, paths, (1, 3, 4))
            assert await nodes(opened, paths) != written
            assert java.call("admin", words=dlck)["exit"] == 0
            assert await nodes(opened, paths) == written

    run(story)


def test_our_check_finds_nothing_in_javas_log_and_restores_what_was_damaged(
    place: Place, opener: Opener, name: str
) -> None:
    check = ("log", "check", "--namespace", place.uri, name)

    async def story() -> None:
        java = opener(name)
        await java.ask("create")
        for first in (1, COUNT + 1, 2 * COUNT + 1):
            writer = await java.open_writer()
            await writer.write(82, first, COUNT)
            await writer.close()
        async with our_namespace(place.uri) as opened:
            paths = LogPaths(place.path, name)
            written = await nodes(opened, paths)
            await asyncio.to_thread(output, *check)
            await damage(opened, paths, (1, 3))
            refused = await asyncio.to_thread(tailrace, *check)
            assert refused.returncode == 1
            await asyncio.to_thread(output, *check, "--repair")
            assert await nodes(opened, paths) == written

    run(story)
