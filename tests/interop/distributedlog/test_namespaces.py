"""Namespaces, names and metadata of segments: what one side makes the other finds."""

from typing import Any

import pytest

from tailrace.core.errors import InvalidStreamName, LogExists, LogNotFound
from tailrace.core.metadata.bindings import bind_namespace
from tailrace.core.metadata.namespace_binding import BKDLConfig
from tailrace.protocol.distributedlog.dlsn import DLSN
from tests.cluster.cli import output
from tests.interop.bookkeeper.ours import run
from tests.interop.distributedlog.conftest import Opener
from tests.interop.distributedlog.java import JavaLog
from tests.interop.distributedlog.ours import (
    Place,
    our_logs,
    our_namespace,
    read,
    write_segment,
)
from tests.interop.distributedlog.records import check
from tests.java.peers import JavaClient, JavaError

pytestmark = [pytest.mark.interop, pytest.mark.java]
COUNT = 10


def connect(java: JavaClient, uri: str, **conf: Any) -> str:
    """Open a namespace of the test's own through Java's library."""
    java.call("connect", client=uri, uri=uri, conf=conf)
    return uri


def test_java_finds_the_binding_that_we_write(java: JavaClient, place: Place, name: str) -> None:
    uri = f"{place.uri}-{name}"

    async def story() -> None:
        async with our_namespace(place.uri) as opened:
            binding = BKDLConfig(
                bk_zk_servers=place.hosts,
                bk_ledgers_path=place.ledgers,
                encode_region_id=True,
                first_log_segment_seq_no=7,
            )
            await bind_namespace(opened.store, f"{place.path}-{name}", binding)
        found = java.call("binding", uri=uri)
        assert found["bookies"] == found["logs"] == place.hosts
        assert found["ledgers"] == place.ledgers
        assert (found["encode_region"], found["first_lssn"]) == (True, 7)
        await check_both_write(java, uri, lssns=[7, 8])

    run(story)


def test_we_find_the_binding_that_javas_tool_writes(
    java: JavaClient, place: Place, name: str
) -> None:
    uri = f"{place.uri}-{name}"
    words = ["bind", "-l", place.ledgers, "-s", place.hosts, "-seqno", "7", "-r", "true"]
    assert java.call("admin", words=[*words, "-c", "-f", uri])["exit"] == 0
    run(lambda: check_both_write(java, uri, lssns=[7, 8]))


def test_java_finds_the_binding_that_our_tool_writes(
    java: JavaClient, place: Place, name: str
) -> None:
    uri = f"{place.uri}-{name}"
    where = ("--metadata", place.metadata, "--namespace", uri)
    output("namespace", "bind", *where, "--first-segment", "3")
    assert java.call("binding", uri=uri)["first_lssn"] == 3
    run(lambda: check_both_write(java, uri, lssns=[3, 4]))


def test_both_find_a_binding_of_an_ancestor(java: JavaClient, place: Place, name: str) -> None:
    async def story() -> None:
        path = f"{place.path}/{name}"
        async with our_namespace(place.uri) as opened:
            await opened.store.create(path)
        await check_both_write(java, f"distributedlog://{place.hosts}{path}", lssns=[1, 2])

    run(story)


async def check_both_write(java: JavaClient, uri: str, lssns: list[int]) -> None:
    """Let each side make a log and begin it, and the other go on."""
    client = connect(java, uri)
    try:
        async with our_namespace(uri) as opened:
            await JavaLog(java, client, "by-java").ask("create")
            await opened.logs.create_log("by-us")
            listed = java.call("list", client=client)["logs"]
            assert sorted(listed) == await opened.logs.list_logs() == ["by-java", "by-us"]
            for log_name in listed:
                theirs, ours = JavaLog(java, client, log_name), await opened.logs.open_log(log_name)
                if log_name == "by-us":
                    await write_segment(ours, 41, 1, COUNT)
                    await write_in_java(theirs, 41, COUNT + 1)
                else:
                    await write_in_java(theirs, 41, 1)
                    await write_segment(ours, 41, COUNT + 1, COUNT)
                everything = await theirs.read(2 * COUNT)
                check(everything, 41, range(1, 2 * COUNT + 1))
                assert await read(ours, 2 * COUNT) == everything
                assert [segment["lssn"] for segment in await theirs.segments()] == lssns
    finally:
        java.call("disconnect", client=client)


async def write_in_java(log: JavaLog, seed: int, first: int) -> None:
    writer = await log.open_writer()
    await writer.write(seed, first, COUNT)
    await writer.close()


def test_logs_that_either_side_makes_and_deletes(place: Place, opener: Opener, name: str) -> None:
    async def story() -> None:
        async with our_logs(place) as logs:
            names = [f"{name}/{each}" for each in ("a/deep/one", "b", "ünï")]
            for log_name in names:
                java = opener(log_name)
                with pytest.raises(LogNotFound):
                    await logs.open_log(log_name)
                await logs.create_log(log_name)
                assert (await java.ask("exists"))["exists"]
                await write_segment(await logs.open_log(log_name), 42, 1, COUNT)
                check(await java.read(COUNT), 42, range(1, COUNT + 1))
                await java.ask("delete")
                assert not await logs.log_exists(log_name)
                await java.ask("create")
                with pytest.raises(LogExists):
                    await logs.create_log(log_name)
                await logs.delete_log(log_name)
                assert not (await java.ask("exists"))["exists"]
                with pytest.raises(JavaError, match="LogNotFound"):
                    await java.ask("numbers")

    run(story)


def test_names_that_java_refuses_we_refuse(place: Place, opener: Opener) -> None:
    async def story() -> None:
        async with our_logs(place) as logs:
            for log_name in ("a//b", "a/../b", "a/", "with space", "<a>", "a\x01", ".hidden"):
                with pytest.raises(JavaError) as theirs:
                    await opener(log_name).ask("create")
                assert theirs.value.name == "InvalidStreamNameException", log_name
                with pytest.raises(InvalidStreamName):
                    await logs.create_log(log_name)

    run(story)


def test_log_that_we_rename(place: Place, opener: Opener, name: str) -> None:
    async def story() -> None:
        async with our_logs(place) as logs:
            await logs.create_log(name)
            await write_segment(await logs.open_log(name), 43, 1, COUNT)
            await logs.rename_log(name, f"{name}-new")
            java = opener(f"{name}-new")
            check(await java.read(COUNT), 43, range(1, COUNT + 1))
            await java.ask("rename", to=f"{name}-newer")
            log = await logs.open_log(f"{name}-newer")
            check(await read(log, COUNT), 43, range(1, COUNT + 1))
            await write_segment(log, 43, COUNT + 1, COUNT)
            everything = await opener(f"{name}-newer").read(2 * COUNT)
            check(everything, 43, range(1, 2 * COUNT + 1))

    run(story)


def test_positions_of_subscribers(place: Place, opener: Opener, name: str) -> None:
    async def story() -> None:
        java = opener(name)
        async with our_logs(place) as logs:
            await logs.create_log(name)
            ours = logs.subscribers(name)
            await ours.advance("by-us", DLSN(1, 5, 0))
            assert (await java.ask("get_position", subscriber="by-us"))["dlsn"] == [1, 5, 0]
            await java.ask("set_position", subscriber="by-us", dlsn=(2, 0, 3))
            await java.ask("set_position", subscriber="by-java", dlsn=(1, 0, 0))
            assert await ours.last_commit("by-us") == DLSN(2, 0, 3)
            assert await ours.last_commits() == {
                "by-java": DLSN(1, 0, 0),
                "by-us": DLSN(2, 0, 3),
            }
            nobody = await java.ask("get_position", subscriber="nobody")
            assert await ours.last_commit("nobody") == DLSN(*nobody["dlsn"])

    run(story)


@pytest.mark.parametrize("version", [2, 3, 4, 5])
def test_segments_of_older_versions(place: Place, opener: Opener, name: str, version: int) -> None:
    """Java writes two segments, the second in progress as well; we complete it and add another."""

    async def story() -> None:
        java = opener(name, {"ledgerMetadataLayoutVersion": version})
        await java.ask("create")
        writer = await java.open_writer()
        await writer.write(44, 1, COUNT)
        await writer.close()
        writer = await java.open_writer()
        await writer.write(44, COUNT + 1, COUNT)
        async with our_logs(place) as logs:
            log = await logs.open_log(name)
            check(await read(log, 2 * COUNT), 44, range(1, 2 * COUNT + 1))
            await writer.abort()
            await write_segment(log, 44, 2 * COUNT + 1, COUNT)
            everything = await read(log, 3 * COUNT)
        check(everything, 44, range(1, 3 * COUNT + 1))
        assert await opener(name).read(3 * COUNT) == everything
        assert [segment["version"] for segment in await java.segments()] == [version, version, 5]

    run(story)


def test_segment_of_the_first_version(place: Place, opener: Opener, name: str) -> None:
    """It has no number, which counts as 0. Java 4.17.3 can write one of a log, no second."""
    first = {"ledgerMetadataLayoutVersion": 1, "ledgerMetadataSkipMinVersionCheck": True}
    beginning = DLSN(0, 0, 0)

    async def story() -> None:
        java = opener(name, first)
        await java.ask("create")
        writer = await java.open_writer()
        await writer.write(45, 1, COUNT)
        await writer.close()
        async with our_logs(place) as logs:
            log = await logs.open_log(name)
            check(await read(log, COUNT, beginning), 45, range(1, COUNT + 1))
            await write_segment(log, 45, COUNT + 1, COUNT)
            everything = await read(log, 2 * COUNT, beginning)
        check(everything, 45, range(1, 2 * COUNT + 1))
        assert await java.read(2 * COUNT, dlsn=beginning) == everything
        assert [segment["lssn"] for segment in await java.segments()] == [0, 1]

    run(story)
