"""The HTTP port: routes, limits, errors; asked by a client that is not ours."""

import asyncio
import json
import urllib.error
import urllib.request
from dataclasses import dataclass
from typing import Any

import pytest

from tailrace.core.runtime.http import BODY_BYTES_MAX, Asked, HttpReply, HttpServer, prometheus_text
from tailrace.core.runtime.metrics import Metrics, counter


def asked(routes: dict[tuple[str, str], Any], *requests: tuple[str, str, bytes]) -> list[Any]:
    """Return (status, body, content type) of each request to a server with these routes."""

    async def run() -> list[Any]:
        server = HttpServer("127.0.0.1", 0, routes)
        await server.start()
        try:
            url = f"http://127.0.0.1:{server.port}"
            return [await asyncio.to_thread(_ask, url, *request) for request in requests]
        finally:
            await server.close()
            await server.close()

    return asyncio.run(run())


def _ask(url: str, method: str, path: str, body: bytes) -> tuple[int, bytes, str]:
    request = urllib.request.Request(url + path, data=body or None, method=method)
    try:
        with urllib.request.urlopen(request, timeout=10) as response:
            return response.status, response.read(), response.headers["Content-Type"]
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read(), error.headers["Content-Type"]


def test_text_json_and_bodies() -> None:
    async def later(body: bytes) -> HttpReply:
        return HttpReply({"got": body.decode()}, status=201)

    routes: dict[tuple[str, str], Any] = {
        ("GET", "/health"): lambda _: HttpReply("OK\n"),
        ("PUT", "/echo"): later,
    }
    health, echo = asked(routes, ("GET", "/health", b""), ("PUT", "/echo", b"x"))
    assert health == (200, b"OK\n", "text/plain; charset=utf-8")
    assert (echo[0], json.loads(echo[1])) == (201, {"got": "x"})


def test_a_handler_hears_names_in_the_path_and_the_query() -> None:
    routes: dict[tuple[str, str], Any] = {
        ("GET", "/topics/{topic}"): Asked(lambda asked: HttpReply(dict(asked))),
    }
    (found,) = asked(routes, ("GET", "/topics/t%2Fx?key=a%20b&topic=other", b""))
    assert json.loads(found[1]) == {"topic": "t/x", "key": "a b"}


def test_what_is_not_there_is_refused() -> None:
    routes = {("GET", "/health"): lambda _: HttpReply("OK")}
    found = asked(routes, ("GET", "/nothing", b""), ("PUT", "/health", b"x"))
    assert [answer[0] for answer in found] == [404, 405]


def test_a_body_above_the_limit_is_refused_and_the_server_goes_on() -> None:
    routes = {("PUT", "/x"): lambda body: HttpReply(str(len(body)))}
    large, small = asked(
        routes, ("PUT", "/x", bytes(BODY_BYTES_MAX + 1)), ("PUT", "/x", bytes(BODY_BYTES_MAX))
    )
    assert large[0] == 413
    assert small[:2] == (200, str(BODY_BYTES_MAX).encode())


def test_a_handler_that_fails_answers_500(caplog: pytest.LogCaptureFixture) -> None:
    def fails(_: bytes) -> HttpReply:
        raise ValueError("no")

    assert asked({("GET", "/x"): fails}, ("GET", "/x", b""))[0][0] == 500
    assert "ValueError: no" in caplog.text


def test_prometheus_text() -> None:
    @dataclass(slots=True)
    class Numbers:
        adds_total: int = counter("adds that were acknowledged")

    metrics = Metrics()
    metrics.register("bookie", Numbers(7), bookie="b:1")
    routes = {("GET", "/metrics"): lambda _: prometheus_text(metrics)}
    status, text, kind = asked(routes, ("GET", "/metrics", b""))[0]
    assert (status, kind) == (200, "text/plain; version=0.0.4; charset=utf-8")
    assert b'bookie_adds_total{bookie="b:1"} 7.0' in text.splitlines()


def test_a_taken_address_is_an_error_and_nothing_stays() -> None:
    async def run() -> None:
        first = HttpServer("127.0.0.1", 0, {})
        await first.start()
        second = HttpServer("127.0.0.1", first.port, {})
        with pytest.raises(OSError, match="address"):
            await second.start()
        await first.close()

    asyncio.run(run())
