from dataclasses import replace
from pathlib import Path

import pytest

from tailrace.core.errors import (
    BadVersion,
    CorruptData,
    InvalidStreamName,
    LogExists,
    LogNotFound,
    NoNode,
    OwnershipAcquireFailed,
    OwnershipLost,
    Unavailable,
)
from tailrace.core.ledger.config import LedgerConfig
from tailrace.core.log.namespace import LogNamespace
from tailrace.core.metadata.bindings import resolve_binding
from tailrace.core.metadata.ledger_tree import ledger_ranges
from tailrace.core.metadata.namespace_binding import BKDLConfig, decode_binding
from tailrace.protocol.distributedlog.dlsn import DLSN
from tests.unit.core.log.test_log_list_watch import Heard
from tests.unit.core.log.world import Listener, World, put, run_world, txids_of, write

ROOT = "/distributedlog/tailrace"


def test_layout_of_a_log(tmp_path: Path) -> None:
    """tests/golden/zk-layout.md, reference DistributedLog 3.2."""

    async def story(world: World) -> None:
        namespace = world.namespace()
        assert await namespace.list_logs() == []
        await namespace.create_log("s")
        tree = await world.dump(ROOT)
        assert decode_binding(tree.pop(ROOT)).bk_ledgers_path == "/ledgers"
        at = f"{ROOT}/s/<default>"
        assert tree == {
            f"{ROOT}/s": b"",
            at: b"",
            f"{at}/maxtxid": b"0",
            f"{at}/version": b"\xff\xff\xff\xff",
            f"{at}/lock": b"",
            f"{at}/readLock": b"",
            f"{at}/ledgers": b"0",
            f"{at}/allocation": b"",
        }

    run_world(tmp_path, story)


def test_create_open_list(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        namespace = world.namespace()
        for name in ("b-1", "a-0", "deep/er/log"):
            await namespace.create_log(name)
            with pytest.raises(LogExists):
                await namespace.create_log(name)
        await world.store.create(f"{ROOT}/.reserved")
        assert await namespace.list_logs() == ["a-0", "b-1", "deep"]
        assert await namespace.log_exists("deep/er/log")
        assert not await namespace.log_exists("deep")
        assert await namespace.open_log("a-0") is await namespace.open_log("/a-0")
        with pytest.raises(LogNotFound):
            await namespace.open_log("deep")
        with pytest.raises(LogNotFound):
            await namespace.delete_log("nothing")
        for call in (namespace.create_log, namespace.open_log, namespace.log_exists):
            with pytest.raises(InvalidStreamName):
                await call("a b")
        await namespace.close()

    run_world(tmp_path, story)


def test_the_first_of_many_names_that_is_a_logs(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        namespace = world.namespace()
        names = [f"t-{number}" for number in range(300)]
        assert await namespace.first_log(names) is None
        assert await namespace.first_log([]) is None
        for name in ("t-200", "t-140", "t-7/below"):
            await world.namespace().create_log(name)
        assert await namespace.first_log(names) == "t-140"
        with pytest.raises(InvalidStreamName):
            await namespace.first_log(["a b"])

    run_world(tmp_path, story)


def test_a_log_that_was_begun_is_finished(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        namespace = world.namespace()
        await namespace.bind()
        await namespace.bind()
        await world.store.create(f"{ROOT}/s", b"mine")
        await namespace.create_log("s")
        log = await namespace.open_log("s")
        assert await log.get_data() == b"mine"
        await log.set_data(b"other")
        assert await log.get_data() == b"other"
        another = await world.namespace().open_log("s")
        await another.set_data(b"theirs")
        for _ in range(2):
            with pytest.raises(BadVersion):
                await log.set_data(b"mine again")
        assert await log.get_data() == b"theirs"
        await log.set_data(b"on top of theirs")
        assert await another.get_data() == b"on top of theirs"

    run_world(tmp_path, story)


def test_an_unbound_root_is_bound_and_a_bound_one_is_kept(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await world.store.create(ROOT, parents=True)
        await world.namespace().bind()
        node = await world.store.get(ROOT)
        assert node.data.startswith(b"1\nBKDL\n")
        await world.store.set(ROOT, b"theirs")
        await world.namespace().create_log("s")
        assert (await world.store.get(ROOT)).data == b"theirs"

    run_world(tmp_path, story)


def test_delete_takes_the_ledgers_too(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        namespace = world.namespace()
        for name in ("gone", "gone/below", "kept"):
            await namespace.create_log(name)
            log = await namespace.open_log(name)
            writer = await log.open_writer(Listener())
            await write(writer, 1, 2)
            await writer.roll()
            await write(writer, 3)
        await world.store.create(f"{ROOT}/gone/<default>/subscribers/x", b"", parents=True)
        await namespace.delete_log("gone")
        assert not await namespace.log_exists("gone")
        assert await namespace.log_exists("gone/below")
        await namespace.delete_log("gone/below")
        await namespace.create_log("gone")  # its name is free
        await namespace.delete_log("gone")
        with pytest.raises(NoNode):
            await world.store.get(f"{ROOT}/gone/<default>")
        kept = await namespace.open_log("kept")
        left = [i async for ids in ledger_ranges(world.store) for i in ids]
        assert left == [s.ledger_id for s in kept.segments]
        await namespace.close()

    run_world(tmp_path, story)


def test_a_log_that_another_process_writes_is_not_deleted(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await world.log()
        writer = await log.open_writer(Listener())
        other = world.namespace(client_id="other")
        with pytest.raises(OwnershipLost):
            await other.delete_log("s")
        put(writer, 1)
        await writer.close()
        await other.delete_log("s")

    run_world(tmp_path, story)


def test_a_log_that_another_process_made_anew_is_opened_with_its_new_settings(
    tmp_path: Path,
) -> None:
    async def story(world: World) -> None:
        mine, other = world.namespace(), world.namespace()
        before, after = {"bkcAckQuorumSize": "1"}, {"enableImmediateFlush": "true"}
        await mine.create_log("s", before)
        writer = await (await mine.open_log("s", before)).open_writer(Listener())
        await write(writer, 1)
        await writer.close()
        await mine.close_log("s")
        await other.delete_log("s")
        await other.create_log("s", after)
        log = await mine.open_log("s", after)
        writer = await log.open_writer(Listener())
        await write(writer, 2)
        await writer.close()
        assert await txids_of(log) == [2]

    run_world(tmp_path, story)


def test_a_log_that_could_not_be_deleted_here_is_not_kept_open(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        mine = world.namespace(lock_timeout_s=0, client_id="mine")
        other = world.namespace(client_id="other")
        await other.create_log("s")
        writer = await (await other.open_log("s")).open_writer(Listener())
        with pytest.raises(OwnershipAcquireFailed):
            await mine.delete_log("s")
        await writer.close()
        await other.delete_log("s")
        own = {"enableImmediateFlush": "true"}
        await other.create_log("s", own)
        assert await txids_of(await mine.open_log("s", own)) == []

    run_world(tmp_path, story)


def test_a_deletion_that_lost_the_metadata_store_keeps_nothing_open(tmp_path: Path) -> None:
    """Another process deletes it and makes one of that name, with settings of its own."""

    async def lost() -> None:
        raise Unavailable("lost ZooKeeper")

    async def story(world: World) -> None:
        mine, other = world.namespace(client_id="mine"), world.namespace(client_id="other")
        await other.create_log("s")
        with pytest.raises(Unavailable):
            await mine.delete_log("s", lost)
        await other.delete_log("s")
        own = {"enableImmediateFlush": "true"}
        await other.create_log("s", own)
        assert await txids_of(await mine.open_log("s", own)) == []

    run_world(tmp_path, story)


def test_leftover_ledgers_are_deleted(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await world.log()
        writer = await log.open_writer(Listener())
        await write(writer, 1)
        await writer.close()
        leftover = await world.ledgers().create_ledger(LedgerConfig(), Nobody())
        path = f"{ROOT}/s/<default>/allocation"
        await world.store.set(path, str(leftover.ledger_id).encode())
        writer = await log.open_writer(Listener())
        await write(writer, 2)
        await writer.close()
        left = [i async for ids in ledger_ranges(world.store) for i in ids]
        assert left == [s.ledger_id for s in log.segments]
        assert (await world.store.get(path)).data == b""

    run_world(tmp_path, story)


class Nobody:
    def on_confirmed(self, lac: int) -> None: ...

    def on_failed(self, error: Exception) -> None: ...


def test_logs_are_listed_by_prefix(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        namespace = world.namespace()
        for name in ("a", "p/x", "p/q/y", "p/z"):
            await namespace.create_log(name)
        assert await namespace.list_logs() == ["a", "p"]
        assert await namespace.list_logs("p") == ["p/q", "p/x", "p/z"]
        assert await namespace.list_logs("/p/q") == ["p/q/y"]
        assert await namespace.list_logs("nothing") == []
        with pytest.raises(InvalidStreamName):
            await namespace.list_logs("p/")
        heard = Heard()
        namespace.watch_logs(heard, "p/q")
        await heard.until(["p/q/y"])
        await world.namespace().create_log("p/q/z")
        await heard.until(["p/q/y", "p/q/z"])
        await namespace.close()
        await world.namespace().create_log("p/q/zz")
        assert await world.namespace().list_logs("p/q") == ["p/q/y", "p/q/z", "p/q/zz"]
        assert heard.lists == [["p/q/y"], ["p/q/y", "p/q/z"]]

    run_world(tmp_path, story)


def test_a_watch_that_is_closed_alone_is_forgotten(tmp_path: Path) -> None:
    """A process that watches now and then would keep them all."""

    async def story(world: World) -> None:
        namespace = world.namespace()
        kept, closed = namespace.watch_logs(Heard()), namespace.watch_logs(Heard())
        await closed.close()
        await closed.close()
        assert list(namespace._watches) == [kept]
        await namespace.close()
        assert not namespace._watches

    run_world(tmp_path, story)


def test_a_renamed_log_is_the_same_log(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        namespace = world.namespace()
        await namespace.create_log("old")
        log = await namespace.open_log("old")
        writer = await log.open_writer(Listener())
        await write(writer, 1, 2)
        with pytest.raises(OwnershipAcquireFailed):
            await namespace.rename_log("old", "deep/er/new")
        await writer.close()
        with pytest.raises(LogExists):
            await namespace.rename_log("old", "/old")
        await namespace.rename_log("old", "deep/er/new")
        with pytest.raises(LogNotFound):
            await namespace.open_log("old")
        log = await namespace.open_log("deep/er/new")
        writer = await log.open_writer(Listener())
        await write(writer, 3)
        await writer.close()
        assert await txids_of(log) == [1, 2, 3]
        await namespace.create_log("old")
        with pytest.raises(LogExists):
            await namespace.rename_log("old", "deep/er/new")

    run_world(tmp_path, story)


def test_a_missing_log_is_made_if_that_is_wanted(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        namespace = world.namespace(creates_logs=True)
        log = await namespace.open_log("a/b")
        assert await txids_of(log) == []
        assert await world.namespace().log_exists("a/b")
        with pytest.raises(LogNotFound):
            await world.namespace().open_log("c")

    run_world(tmp_path, story)


def test_the_binding_numbers_segments(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        binding = BKDLConfig(
            bk_zk_servers="embedded",
            bk_ledgers_path="/ledgers",
            encode_region_id=True,
            first_log_segment_seq_no=7,
        )
        config = replace(world.config, region_id=9)
        namespace = LogNamespace(
            world.store, world.ledgers(), config, world.clock, "/ns", binding=binding
        )
        await namespace.create_log("s")
        log = await namespace.open_log("s")
        writer = await log.open_writer(Listener())
        await write(writer, 1)
        await writer.roll()
        await write(writer, 2)
        await writer.close()
        assert [(s.lssn, s.region_id) for s in log.segments] == [(7, 9), (8, 9)]
        assert await txids_of(log) == [1, 2]
        segments = "/ns/s/<default>/ledgers"
        assert (await world.store.get(segments)).data == b"8"
        bound = await resolve_binding(world.store, "/ns")
        assert (bound.encode_region_id, bound.first_log_segment_seq_no) == (True, 7)

    run_world(tmp_path, story)


def test_positions_of_subscribers_move_with_their_log(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        namespace = world.namespace()
        await namespace.create_log("s")
        await namespace.subscribers("s").advance("a", DLSN(1, 2, 3))
        await namespace.rename_log("s", "t")
        assert await namespace.subscribers("/t").last_commits() == {"a": DLSN(1, 2, 3)}
        await namespace.delete_log("t")
        assert await namespace.subscribers("t").last_commits() == {}
        with pytest.raises(InvalidStreamName):
            namespace.subscribers("t/")

    run_world(tmp_path, story)


def test_an_unknown_layout_is_refused(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await world.namespace().create_log("s")
        await world.store.set(f"{ROOT}/s/<default>/version", b"\0\0\0\1")
        with pytest.raises(CorruptData, match="00000001"):
            await world.namespace().open_log("s")

    run_world(tmp_path, story)


def test_a_log_is_not_renamed_under_who_rewrites_it_or_reads_it_alone(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await world.log()
        writer = await log.open_writer(Listener())
        await write(writer, 1, 2)
        await writer.close()
        other = world.namespace(client_id="other")
        rewrite = await log.rewrite([1])
        with pytest.raises(OwnershipAcquireFailed):
            await other.rename_log("s", "t")
        await rewrite.abort()
        reader = await log.open_reader_with_lock(DLSN(1, 0, 0), "sub", 0)
        with pytest.raises(OwnershipAcquireFailed):
            await other.rename_log("s", "t")
        await reader.close()
        await other.rename_log("s", "t")
        await world.restart_store()
        moved = await world.namespace().open_log("t")
        reader = await moved.open_reader_with_lock(DLSN(1, 0, 0), "sub", 0)
        await reader.close()

    run_world(tmp_path, story)
