"""`tailrace start --test-faults`: the port, who gets one, and what it says."""

import socket
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tailrace.tools.errors import Exit
from tests.cluster.fault_port import FaultPort
from tests.process import TailraceProcess
from tests.unit.tools.test_main import tailrace


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FaultPort]:
    process = TailraceProcess(
        tmp_path_factory.mktemp("data") / "d", "--test-faults", "127.0.0.1:0"
    ).start()
    yield FaultPort(process.output)
    process.kill()


def test_faults_are_set_listed_and_undone(port: FaultPort) -> None:
    status, first = port.ask("POST", fault="drop_next", api="EndTxn", count=3)
    assert (status, first["hits"]) == (200, 0)
    second = port.ask("POST", fault="skew_clock", seconds=1)[1]["id"]
    shown = {"id": first["id"], "fault": "drop_next", "api": "EndTxn", "count": 3, "when": "after"}
    assert port.ask("GET")[1][0] == {**shown, "hits": 0}
    assert port.ask("DELETE", f"/{first['id']}") == (200, [{**shown, "hits": 0}])
    assert port.ask("DELETE", f"/{first['id']}") == (200, [])
    assert [each["id"] for each in port.ask("DELETE")[1]] == [second]
    assert port.ask("GET") == (200, [])


def test_an_unknown_name_is_refused_with_the_nearest(port: FaultPort) -> None:
    refused = {
        "error": "the API 'Produec' is unknown",
        "place": "api",
        "remedy": "did you mean Produce?",
    }
    assert port.ask("POST", fault="drop_next", api="Produec") == (400, refused)
    assert port.ask("GET") == (200, [])


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("0.0.0.0:0", "'0.0.0.0:0' is no loopback address"),
        (":9", "is no loopback address"),
        ("example.org:9", "is no loopback address"),
        ("[::]:0", "is no loopback address"),
        ("127.0.0.1:x", "is no address"),
    ],
)
def test_others_than_this_machine_get_no_such_port(tmp_path: Path, place: str, words: str) -> None:
    done = tailrace("start", "--data", str(tmp_path / "d"), "--test-faults", place)
    assert done.returncode == Exit.USAGE
    assert words in done.stderr
    assert "at: --test-faults" in done.stderr
    assert "try: " in done.stderr
    assert not (tmp_path / "d").exists()


def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        place = f"127.0.0.1:{taken.getsockname()[1]}"
        said = TailraceProcess(tmp_path / "d", "--test-faults", place).refused()
    assert f"--test-faults {place}: Address already in use" in said
    assert "Traceback" not in said


def test_without_the_option_there_is_no_such_port(tmp_path: Path) -> None:
    process = TailraceProcess(tmp_path / "d").start()
    try:
        assert "faults:" not in process.output
        sockets = psutil.Process(process.pid).net_connections()
        listening = [each.laddr.port for each in sockets if each.status == psutil.CONN_LISTEN]
        assert listening == [int(process.bootstrap.rpartition(":")[2])]
    finally:
        process.kill()
