"""`tailrace topic stats|latest` against a broker that answers in parts, or for some partitions."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from typing_extensions import override

from tailrace.tools.errors import CliError
from tailrace.tools.topics.topic_contents import latest, stats


@contextmanager
def answering(*answers: dict[str, Any]) -> Iterator[tuple[str, list[str]]]:
    """Give these answers, one for each question; yield where, and what was asked."""
    left, asked = list(answers), []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            body = json.dumps({"topic": "t", **left.pop(0)}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        @override
        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_port}", asked
        finally:
            server.shutdown()
            thread.join()


def row(records: int, unread: int) -> dict[str, Any]:
    bound = f"{unread} offsets are not read yet, ask again" if unread else None
    names = ("live_keys", "tombstones", "size_bytes", "tail_bytes", "head_bytes", "saved_bytes")
    numbers = dict.fromkeys(names, 1)
    counted = {"records": records, "unread_offsets": unread, "bound": bound}
    return {"partition": 0, "dirty_ratio": 0.5, "last_clean_ms": None, **numbers, **counted}


def part(records: int, unread: int, read: int = 1) -> dict[str, Any]:
    return {"read_bytes": read, "partitions": [row(records, unread)]}


def test_it_is_asked_until_all_is_read(capsys: pytest.CaptureFixture[str]) -> None:
    with answering(part(1, 5), part(3, 3), part(6, 0)) as (admin, asked):
        stats("t", admin=admin, as_json=True)
    assert asked == ["/topics/t/stats"] * 3
    shown = capsys.readouterr()
    assert json.loads(shown.out)["partitions"][0]["records"] == 6
    assert shown.err == ""


@pytest.mark.parametrize("again", [part(2, 4, read=0), part(2, 5)])
def test_it_ends_when_no_more_is_read(
    again: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    with answering(part(1, 5), again) as (admin, asked):
        stats("t", admin=admin)
    assert len(asked) == 2
    assert "partition 0: " in capsys.readouterr().err
    with answering(part(1, 0)) as (admin, asked):
        stats("t", admin=admin)
    assert "0.50" in capsys.readouterr().out


def test_partitions_of_others_are_named_behind_the_rest(
    capsys: pytest.CaptureFixture[str],
) -> None:
    keys = [{"key": "k", "value": None, "offset": 7, "timestamp": 5}]
    mine = {"partition": 0, "is_whole": True, "unread_offsets": 0, "bound": None, "keys": keys}
    theirs = {"partition": 1, "error": "t-1: NOT_LEADER_OR_FOLLOWER"}
    with (
        answering({"read_bytes": 0, "partitions": [mine, theirs]}) as (admin, asked),
        pytest.raises(CliError, match="t-1: NOT_LEADER_OR_FOLLOWER") as caught,
    ):
        latest("t", key="k", limit=3, admin=admin)
    assert asked == ["/topics/t/latest?limit=3&key=k"]
    assert "ask the broker that owns it" in caught.value.remedy
    assert capsys.readouterr().out.split()[-4:] == ["7", "5", "k", "-"]


def test_a_terminal_gets_no_bytes_that_steer_it(capsys: pytest.CaptureFixture[str]) -> None:
    keys = [{"key_base64": "/w==", "value": "\x1b[31m", "offset": 7, "timestamp": 5}]
    mine = {"partition": 0, "is_whole": True, "unread_offsets": 0, "bound": None, "keys": keys}
    with answering({"read_bytes": 0, "partitions": [mine]}) as (admin, _):
        latest("t", limit=3, admin=admin)
    assert capsys.readouterr().out.split()[-2:] == ["base64:/w==", '"\\u001b[31m"']


def test_nobody_answers() -> None:
    with pytest.raises(CliError) as caught:
        stats("t", admin="127.0.0.1:1")
    assert caught.value.cause == "no broker answers: Connection refused"
