"""A bookie's HTTP port, asked over HTTP."""

import asyncio
import json
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from tailrace.bookie.app import BookieProcess, start_bookie
from tailrace.bookie.config import HttpConfig
from tailrace.core.metadata.bookie_service_info import decode_service_info
from tailrace.core.metadata.layout import LedgerPaths
from tailrace.core.metadata.ledger_tree import initialize_layout
from tailrace.core.metadata.sqlite import SqliteStore
from tailrace.core.runtime.clock import ManualClock
from tailrace.core.runtime.files import SystemFiles
from tailrace.core.runtime.metrics import Metrics
from tailrace.protocol.bookkeeper.messages import StatusCode
from tailrace.protocol.ids import BookieId
from tests.unit.bookie.world import L1, add, ask, run, small_config

HTTP = HttpConfig(enabled=True, port=0)


async def started(directory: Path, store: SqliteStore | None = None) -> BookieProcess:
    config = small_config(directory, http=HTTP)
    return await start_bookie(config, store, ManualClock(), SystemFiles(), Metrics())


async def http(process: BookieProcess, path: str, put: bytes | None = None) -> tuple[int, str]:
    """Return status and body."""
    assert process.http is not None
    url = f"http://127.0.0.1:{process.http.port}{path}"
    return await asyncio.to_thread(_http, url, put)


def _http(url: str, put: bytes | None) -> tuple[int, str]:
    request = urllib.request.Request(url, data=put, method="GET" if put is None else "PUT")
    try:
        with urllib.request.urlopen(request, timeout=10) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


async def state(process: BookieProcess, path: str = "/api/v1/bookie/state") -> dict[str, Any]:
    found: dict[str, Any] = json.loads((await http(process, path))[1])
    return found


def test_health_metrics_and_room(tmp_path: Path) -> None:
    async def story() -> None:
        process = await started(tmp_path)
        assert (await ask(process.bookie, add(L1, 0))).status is StatusCode.EOK
        health = await state(process, "/health")
        assert health == {
            "status": "ok", "bookie": "test:3181", "mode": "writable", "reason": "",
            "failed_tasks": [],
        }  # fmt: skip
        assert await http(process, "/heartbeat") == (200, "OK\n")
        assert await http(process, "/api/v1/bookie/is_ready") == (200, "OK\n")
        _, text = await http(process, "/metrics")
        assert 'bookie_adds_total{bookie="test:3181"} 1.0' in text.splitlines()
        assert 'bookie_disk_read_only{bookie="test:3181"} 0.0' in text.splitlines()
        room = await state(process, "/api/v1/bookie/info")
        assert 0 < room["freeSpace"] <= room["totalSpace"]
        status, _ = await http(process, "/api/v1/bookie/gc", b"{}")
        assert status == 200
        await process.close()

    run(story)


def test_an_operator_makes_it_read_only_and_writable_again(tmp_path: Path) -> None:
    async def story() -> None:
        store = SqliteStore(tmp_path / "metadata", ManualClock())
        await initialize_layout(store)
        process = await started(tmp_path, store)
        path, paths = "/api/v1/bookie/state/readonly", LedgerPaths()
        doors = decode_service_info(
            (await store.get(paths.bookie(BookieId("test:3181")))).data, BookieId("test:3181")
        ).endpoints
        assert [door.protocol for door in doors] == ["bookie-rpc", "http"]
        assert process.http is not None
        assert doors[1].port == process.http.port

        moved = asyncio.Event()
        await store.exists(paths.read_only_bookie(BookieId("test:3181")), lambda *_: moved.set())
        assert await http(process, path, b'{"readOnly": true}') == (200, '{"readOnly": true}')
        await moved.wait()
        found = await state(process)
        assert (found["readOnly"], found["reason"]) == (True, "an operator made it read-only")
        assert (await ask(process.bookie, add(L1, 0))).status is StatusCode.EREADONLY
        recovery = add(L1, 0, recovery=True)._replace(priority=100)
        assert (await ask(process.bookie, recovery)).status is StatusCode.EOK
        assert (await http(process, path, b'{"readOnly": false}'))[0] == 200
        assert (await ask(process.bookie, add(L1, 1))).status is StatusCode.EOK
        await process.close()
        await store.close()

    run(story)


def test_nonsense_changes_nothing(tmp_path: Path) -> None:
    async def story() -> None:
        process = await started(tmp_path)
        for body in (b"", b"[]", b'{"readOnly": 1}', b'{"readonly": true}', b"\xff", b"[" * 5000):
            status, said = await http(process, "/api/v1/bookie/state/readonly", body)
            assert status == 400
            assert "readOnly" in said
        assert not process.bookie.health.is_read_only
        await process.close()

    run(story)


def test_a_bookie_that_cannot_write_says_so(tmp_path: Path) -> None:
    async def story() -> None:
        process = await started(tmp_path)
        process.bookie.failed.set_result(None)  # type: ignore[arg-type]
        assert (await http(process, "/health"))[0] == 503
        assert await http(process, "/api/v1/bookie/is_ready") == (503, "failed\n")
        assert (await state(process))["running"] is False
        await process.close()

    run(story)
