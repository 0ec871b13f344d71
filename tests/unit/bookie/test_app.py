import asyncio
import os
import struct
from pathlib import Path
from typing import Any

import pytest
from typing_extensions import override

from tailrace.bookie.app import BookieProcess, start_bookie
from tailrace.bookie.config import BookieConfig
from tailrace.bookie.errors import InvalidCookie
from tailrace.bookie.inspect import BookieFiles
from tailrace.core.metadata.bookie_service_info import decode_service_info
from tailrace.core.metadata.layout import LedgerPaths
from tailrace.core.metadata.network_location import NetworkLocation
from tailrace.core.metadata.sqlite import SqliteStore
from tailrace.core.runtime.clock import ManualClock
from tailrace.core.runtime.files import LockHeld, SystemFiles
from tailrace.core.runtime.metrics import Metrics
from tailrace.protocol.bookkeeper.codec import decode_response, encode_request
from tailrace.protocol.bookkeeper.messages import ReadRequest, StatusCode
from tailrace.protocol.ids import BookieId, LedgerId
from tests.unit.bookie.world import (
    L1,
    L2,
    add,
    ask,
    entry_body,
    fence,
    open_small,
    read,
    run,
    small_config,
)


def test_a_second_bookie_on_the_same_directory_is_refused(tmp_path: Path) -> None:
    async def story() -> None:
        bookie = await open_small(tmp_path)
        with pytest.raises(LockHeld, match=f"in use by process {os.getpid()}"):
            await open_small(tmp_path)
        await bookie.close()
        await bookie.close()
        await (await open_small(tmp_path)).close()
        with pytest.raises(InvalidCookie, match="belongs to bookie test:3181"):
            await open_small(tmp_path, bookie_id="other:1")

    run(story)


def test_a_process_registers_listens_and_signs_off(tmp_path: Path) -> None:
    async def story() -> None:
        paths = LedgerPaths()
        store = SqliteStore(tmp_path / "metadata.sqlite", ManualClock())
        await store.create(paths.instance_id, b"i", parents=True)
        await store.create(paths.available, b"")
        metrics = Metrics()
        config = small_config(tmp_path)
        process = await start_bookie(config, store, ManualClock(), SystemFiles(), metrics)
        node = await store.get(paths.bookie(BookieId("test:3181")))
        assert node.ephemeral_owner == store.session_id
        endpoint = decode_service_info(node.data, BookieId("test:3181")).rpc()
        assert endpoint is not None
        reader, writer = await asyncio.open_connection("127.0.0.1", endpoint.port)
        writer.writelines(encode_request(7, add(L1, 0)))
        (size,) = struct.unpack(">i", await reader.readexactly(4))
        txn_id, response = decode_response(await reader.readexactly(size))
        assert (txn_id, response.status) == (7, StatusCode.EOK)
        writer.close()
        assert metrics.snapshot()["bookie_adds_total{bookie=test:3181}"] == 1
        await process.close()
        assert await store.exists(paths.bookie(BookieId("test:3181"))) is None
        await store.close()

    run(story)


def test_a_bookie_says_where_it_stands(tmp_path: Path) -> None:
    async def story() -> None:
        paths = LedgerPaths()
        store = SqliteStore(tmp_path / "metadata.sqlite", ManualClock())
        await store.create(paths.instance_id, b"i", parents=True)
        await store.create(paths.available, b"")
        config = small_config(tmp_path, network_location="eu/r1/")
        process = await start_bookie(config, store, ManualClock(), SystemFiles())
        node = await store.get(paths.bookie(BookieId("test:3181")))
        info = decode_service_info(node.data, BookieId("test:3181"))
        assert info.location() == NetworkLocation("eu", "/eu/r1")
        await process.close()
        await store.close()

    run(story)
    with pytest.raises(ValueError, match="not a network location"):
        BookieConfig(network_location="/eu//r1")


def test_a_mode_that_changes_while_it_registers_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node of its former life may be waited out for seconds; a disk has room again meanwhile."""
    paths, processes = LedgerPaths(), list[BookieProcess]()
    me = BookieId("test:3181")
    register = BookieProcess.register

    def noted(process: BookieProcess, *args: Any) -> Any:
        processes.append(process)
        return register(process, *args)

    class Store(SqliteStore):
        @override
        async def create(self, path: str, data: bytes = b"", **options: Any) -> str:
            name = await super().create(path, data, **options)
            if path == paths.bookie(me):
                processes[0].bookie.health.set_manual(read_only=True)
            return name

    async def story() -> None:
        store = Store(tmp_path / "metadata.sqlite", ManualClock())
        await store.create(paths.instance_id, b"i", parents=True)
        await store.create(paths.available, b"")
        process = await start_bookie(small_config(tmp_path), store, ManualClock(), SystemFiles())
        assert process.bookie.health.is_read_only
        async with asyncio.timeout(10):
            while await store.exists(paths.bookie(me)) is not None:  # noqa: ASYNC110
                await asyncio.sleep(0)
        assert await store.exists(paths.read_only_bookie(me)) is not None
        await process.close()
        await store.close()

    monkeypatch.setattr(BookieProcess, "register", noted)
    run(story)


@pytest.mark.parametrize(
    "sent",
    [
        b"\x7f\xff\xff\xff",
        b"\xff\xff\xff\xff",
        b"\0\0\0\0",
        b"\0\0\0\4\2\1\0\0",  # protocol v2
        b"\0\0\0\x08garbage!",
        b"\0\0\0\x02\x0a\x50",
    ],
)
def test_bad_frames_end_their_connection_only(tmp_path: Path, sent: bytes) -> None:
    async def story() -> None:
        process = await start_bookie(small_config(tmp_path), None, ManualClock(), SystemFiles())
        port = process.server.port
        good_reader, good = await asyncio.open_connection("127.0.0.1", port)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(sent)
        assert await reader.read() == b""
        writer.close()
        good.writelines(encode_request(1, ReadRequest(L1, 0)))
        (size,) = struct.unpack(">i", await good_reader.readexactly(4))
        _, response = decode_response(await good_reader.readexactly(size))
        assert response.status is StatusCode.ENOLEDGER
        good.close()
        await process.close()

    run(story)


def test_a_reader_that_does_not_drain_is_bounded(tmp_path: Path) -> None:
    async def story() -> None:
        process = await start_bookie(small_config(tmp_path), None, ManualClock(), SystemFiles())
        await ask(process.bookie, add(L1, 0, bytes(1024 * 1024)))
        reader, writer = await asyncio.open_connection("127.0.0.1", process.server.port)
        wanted = 300
        for number in range(wanted):
            writer.writelines(encode_request(number, ReadRequest(L1, 0)))
        await writer.drain()
        reads = -1
        while reads != process.bookie.metrics.reads_total:  # until it stands still
            reads = process.bookie.metrics.reads_total
            await ask(process.bookie, read(L1, 0))
            reads += 1
            await asyncio.sleep(0.05)
        assert reads < 150
        for _ in range(wanted):
            (size,) = struct.unpack(">i", await reader.readexactly(4))
            await reader.readexactly(size)
        writer.close()
        await process.close()

    run(story)


def test_inspection_beside_a_live_bookie(tmp_path: Path) -> None:
    async def story() -> None:
        bookie = await open_small(tmp_path, log_size_limit=9000, preallocate_mb=1)
        for entry_id in range(10):
            await ask(bookie, add(L1, entry_id, b"%d" % entry_id * 1000))
            if entry_id == 6:
                await bookie.checkpoint()
        await ask(bookie, fence(L2))
        look = BookieFiles(SystemFiles(), [tmp_path / "ledgers"])
        for entry_id in range(10):
            body = entry_body(L1, entry_id, b"%d" % entry_id * 1000)
            place = look.locate(L1, entry_id)
            assert place is not None
            assert bytes_at(place.path, place.position, place.size) == body
            assert look.read(L1, entry_id) == body
        assert look.locate(L1, 10) is None
        assert look.read(LedgerId(77), 0) is None
        await ask(bookie, add(L1, 10))
        assert look.locate(L1, 10) is None
        look.refresh()
        assert look.locate(L1, 10) is not None
        assert look.entry_ids(L1) == list(range(11))
        assert look.ledgers() == [1]
        await bookie.close()
        look.refresh()
        assert look.ledgers() == [1, 2]
        summary = look.summary(L2)
        assert summary is not None
        assert summary.header is not None
        assert summary.header.fenced
        assert look.summary(LedgerId(5)) is None
        first = look.summary(L1)
        assert first is not None
        assert (first.first_entry, first.last_entry, first.entries) == (0, 10, 11)

    run(story)


def bytes_at(path: Path, position: int, size: int) -> bytes:
    return path.read_bytes()[position : position + size]


@pytest.mark.parametrize(
    "changes",
    [
        {"log_size_limit": 100},
        {"log_size_limit": 2**31},
        {"group_bytes_max": 0},
        {"group_bytes_max": 2**30},
        {"pending_bytes_max": 1},
        {"frame_bytes_max": 2**30},
    ],
)
def test_settings_are_checked(changes: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=r".+"):
        BookieConfig(**changes)


def test_identity() -> None:
    assert BookieConfig().identity == "127.0.0.1:3181"
    assert BookieConfig(advertised_host="b1.example").identity == "b1.example:3181"
    assert BookieConfig(bookie_id="b1").identity == "b1"
