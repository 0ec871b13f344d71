"""Cold storage on S3: a real server (moto) in a process of its own, spoken to over HTTP."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from time import monotonic, sleep
from typing import Any, Final
from urllib.error import URLError
from urllib.request import Request, urlopen

import pytest

from tests.cluster.cold_cluster import ROOT, ColdCluster
from tests.ports import free_port
from tests.zookeeper import ZooKeeperServer

BIN: Final = Path(sys.executable).parent
READY_WITHIN_S: Final = 60
BUCKET: Final = "cold"

pytestmark = pytest.mark.interop


class S3Server:
    """moto's server, empty at each start."""

    def __init__(self) -> None:
        port = free_port()
        self.endpoint = f"http://127.0.0.1:{port}"
        self._child = subprocess.Popen(
            [str(BIN / "moto_server"), "-H", "127.0.0.1", "-p", str(port)],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip

    def wait_until_ready(self) -> None:
        deadline = monotonic() + READY_WITHIN_S
        while True:
            assert self._child.poll() is None, "the S3 server ended"
            try:
                self.ask("GET", "/")
            except URLError:
                assert monotonic() < deadline, "the S3 server is not ready"
                sleep(0.05)
                continue
            return

    def ask(self, method: str, path: str, body: bytes | None = None) -> bytes:
        """Speak S3's protocol without any client library."""
        signed = "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/s3/aws4_request"
        headers = {"Authorization": signed, "Content-Type": "application/octet-stream"}
        request = Request(self.endpoint + path, body, headers, method=method)
        with urlopen(request, timeout=10) as answer:
            return bytes(answer.read())

    def close(self) -> None:
        self._child.terminate()
        self._child.wait(30)


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    running = S3Server()
    try:
        running.wait_until_ready()
        running.ask("PUT", f"/{BUCKET}")
        yield running
    finally:
        running.close()


def settings(server: S3Server, **more: Any) -> dict[str, Any]:
    options = {
        "key": "test",
        "secret": "test",
        "client_kwargs": {"endpoint_url": server.endpoint, "region_name": "us-east-1"},
    }
    url = f"s3://{BUCKET}/tailrace"
    return {"url": url, "options": json.dumps(options), "part_bytes": 5 * 1024 * 1024, **more}


def keys(server: S3Server) -> list[str]:
    text = server.ask("GET", f"/{BUCKET}?list-type=2").decode()
    return [part.partition("</Key>")[0] for part in text.split("<Key>")[1:]]


def uploads(server: S3Server) -> int:
    return server.ask("GET", f"/{BUCKET}?uploads").decode().count("<Upload>")


@pytest.fixture
def cluster(zookeeper: ZooKeeperServer, tmp_path: Path, server: S3Server) -> Iterator[ColdCluster]:
    """A log of three segments, 12 MB each: an object is an upload of several parts."""
    assert keys(server) == []
    with ColdCluster(zookeeper, tmp_path, settings(server)) as running:
        running.step("write", record_bytes=300_000)
        yield running
    for key in keys(server):
        server.ask("DELETE", f"/{BUCKET}/{key}")


def test_segments_go_to_s3_and_are_read_from_there(cluster: ColdCluster, server: S3Server) -> None:
    before = cluster.step("read")
    assert cluster.step("copy") == [1, 2, 3]
    assert len(keys(server)) == 3
    assert uploads(server) == 0
    assert cluster.step("release") == [1, 2]
    assert cluster.step("read") == before
    assert not any(row["problem"] for row in json.loads(cluster.cli("verify", "--json")))

    key = next(key for key in keys(server) if f"{2:018d}" in key)
    whole = server.ask("GET", f"/{BUCKET}/{key}")
    server.ask("PUT", f"/{BUCKET}/{key}", whole[:100])
    wrong = [row for row in json.loads(cluster.cli("verify", "--json", code=1)) if row["problem"]]
    assert "ColdObjectCorrupt" in wrong[0]["problem"]
    flipped = bytearray(whole)
    flipped[len(whole) // 3] ^= 1
    server.ask("PUT", f"/{BUCKET}/{key}", bytes(flipped))
    wrong = [row for row in json.loads(cluster.cli("verify", "--json", code=1)) if row["problem"]]
    assert [(row["lssn"], row["problem"].partition(":")[0]) for row in wrong] == [
        (2, "ColdObjectCorrupt")
    ]
    server.ask("DELETE", f"/{BUCKET}/{key}")
    wrong = [row for row in json.loads(cluster.cli("verify", "--json", code=1)) if row["problem"]]
    assert wrong[0]["problem"].startswith("ColdObjectNotFound")

    server.ask("PUT", f"/{BUCKET}/{key}", whole)
    assert json.loads(cluster.cli("restore", "s", "1", "--json"))["restored"] == [2, 1]
    assert cluster.step("read") == before


@pytest.mark.crash
def test_a_process_killed_in_mid_upload_leaves_no_object(
    cluster: ColdCluster, server: S3Server
) -> None:
    cluster.kill_while_copying(upload_bytes_per_s=2_000_000)
    assert keys(server) == [], "an upload is there only when it is whole"
    assert cluster.step("copy") == [1, 2, 3]
    assert len(keys(server)) == 3
    assert json.loads(cluster.cli("status", "--json"))[0]["not_copied"] == 0


def test_a_server_that_refuses_is_named(cluster: ColdCluster, server: S3Server) -> None:
    cold = {**settings(server, attempts=1), "url": "s3://no-such-bucket/x"}
    done = subprocess.run(
        cluster.command("copy", cold=cold), cwd=ROOT, capture_output=True, timeout=120,
        check=False, env=dict(os.environ),
    )  # fmt: skip
    assert done.returncode != 0
    assert b"ColdStorageUnavailable" in done.stderr or b"ColdObjectNotFound" in done.stderr
    assert b"no-such-bucket" in done.stderr
    assert cluster.step("read")["txids"] == list(range(120))
