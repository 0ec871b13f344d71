"""The issuer's keys over real files and sockets: read in the background, kept when they fail."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tailrace.core.access.oauth import key_source
from tailrace.core.access.oauth.compact import TokenRefused, split_token
from tailrace.core.access.oauth.config import OAuthConfig
from tailrace.core.access.oauth.key_source import KeySource
from tailrace.core.access.oauth.validator import TokenValidator
from tailrace.core.runtime.clock import ManualClock
from tests.certificates import Authority
from tests.unit.broker.loops import in_loop, until
from tests.unit.core.access.oauth.issuer import GOOD, NOW_MS, jwk_of, key_set, token

FAST: dict[str, Any] = {"retry_ms": 1, "retry_ms_max": 5, "expected_audience": ("kafka",)}


class Endpoint:
    """An HTTP server that answers what a test says, and counts."""

    def __init__(self, body: bytes = b"", status: str = "200 OK") -> None:
        self.body = body
        self.status = status
        self.length: int | None = None
        self.asked = 0
        self.go_on = asyncio.Event()
        self.go_on.set()
        self.more = ""

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await reader.readuntil(b"\r\n\r\n")
        if request.startswith(b"GET /other"):
            self.status, self.more = "200 OK", ""
        self.asked += 1
        await self.go_on.wait()
        length = len(self.body) if self.length is None else self.length
        head = f"HTTP/1.1 {self.status}\r\nContent-Length: {length}\r\n{self.more}\r\n"
        writer.write(head.encode() + self.body)
        try:
            await writer.drain()
        except ConnectionError:
            self.more = ""  # the client has gone: it had enough
        writer.close()


@asynccontextmanager
async def served(endpoint: Endpoint) -> AsyncIterator[str]:
    server = await asyncio.start_server(endpoint, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/keys"
        endpoint.go_on.set()


@asynccontextmanager
async def source_of(
    config: OAuthConfig, clock: ManualClock | None = None
) -> AsyncIterator[KeySource]:
    source = KeySource(config, clock or ManualClock())
    source.start()
    try:
        yield source
    finally:
        await source.close()


async def is_known(source: KeySource, **named: Any) -> bool:
    try:
        await source.find(split_token(token(**named)))
    except TokenRefused:
        return False
    return True


@in_loop
async def test_keys_come_from_a_file_and_a_login_waits_for_them(
    tmp_path: Path,
) -> None:
    file = tmp_path / "a b.json"
    file.write_bytes(key_set(jwk_of()))
    config = OAuthConfig(jwks_url=file.as_uri(), expected_audience=("kafka",))
    validator = TokenValidator(config, ManualClock(NOW_MS))
    validator.start()
    try:
        assert (await validator.check(token())).user == "alice"
        with pytest.raises(TokenRefused, match="expired"):
            await validator.check(token(claims={**GOOD, "exp": 1_600_000_000}))
        forged = token().rpartition(".")[0] + "." + token().rpartition(".")[2][::-1]
        with pytest.raises(TokenRefused, match="signature"):
            await validator.check(forged)
    finally:
        await validator.close()
    assert validator.keys.metrics.known == 1


@in_loop
async def test_keys_come_over_http() -> None:
    endpoint = Endpoint(key_set(jwk_of("ES256", "a"), jwk_of("ES384", "b")))
    async with served(endpoint) as url, source_of(OAuthConfig(jwks_url=url)) as source:
        assert await is_known(source, kid="a")
        assert not await is_known(source, kid="b")  # it is for another algorithm
    assert (source.metrics.known, source.metrics.reads_total) == (2, 1)


@in_loop
async def test_a_server_that_nobody_vouches_for_gives_no_keys(tmp_path: Path) -> None:
    """Its certificate is of no authority of the system's."""
    endpoint = Endpoint(key_set(jwk_of()))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(Authority(tmp_path / "keys").store("issuer", "127.0.0.1"))
    server = await asyncio.start_server(endpoint, "127.0.0.1", 0, ssl=context)
    url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/keys"
    async with server, source_of(_fast(url)) as source:
        assert not await is_known(source)
        await until(lambda: source.metrics.read_failures_total > 1)
    assert endpoint.asked == 0


@in_loop
async def test_a_flood_of_unknown_keys_is_one_reading_a_while() -> None:
    endpoint, clock = Endpoint(key_set(jwk_of(kid="a"))), ManualClock()
    async with served(endpoint) as url, source_of(OAuthConfig(jwks_url=url), clock) as source:
        assert await is_known(source, kid="a")
        for round_ in range(3):
            async with asyncio.TaskGroup() as group:
                found = [
                    group.create_task(is_known(source, kid=f"{round_}.{n}")) for n in range(100)
                ]
            assert not any(each.result() for each in found)
            assert endpoint.asked == 1 + round_
            clock.advance_ms(10_000)


@in_loop
async def test_a_new_key_is_found_when_a_token_names_it() -> None:
    endpoint, clock = Endpoint(key_set(jwk_of(kid="old"))), ManualClock()
    async with served(endpoint) as url, source_of(OAuthConfig(jwks_url=url), clock) as source:
        assert await is_known(source, kid="old")
        endpoint.body = key_set(jwk_of(kid="new"))
        assert not await is_known(source, kid="new")  # too soon after the last reading
        clock.advance_ms(10_000)
        assert await is_known(source, kid="new")
        assert not await is_known(source, kid="old")  # withdrawn


@in_loop
async def test_keys_are_read_again_by_time() -> None:
    endpoint = Endpoint(key_set(jwk_of(kid="old")))
    async with (
        served(endpoint) as url,
        source_of(OAuthConfig(jwks_url=url, refresh_ms=5)) as source,
    ):
        endpoint.body = key_set(jwk_of(kid="new"))
        before = endpoint.asked
        await until(lambda: endpoint.asked > before + 1)
        assert await is_known(source, kid="new")


def _fast(url: str) -> OAuthConfig:
    return OAuthConfig(jwks_url=url, **FAST)


def _often(url: str) -> OAuthConfig:
    return OAuthConfig(jwks_url=url, refresh_ms=5)


def _gone(endpoint: Endpoint) -> None:
    endpoint.status = "503 Service Unavailable"


def _elsewhere(endpoint: Endpoint) -> None:
    """Send it to another place, where everything is well."""
    endpoint.status, endpoint.more = "302 Found", "Location: /other\r\n"


def _not_keys(endpoint: Endpoint) -> None:
    endpoint.body = b"<html>sign in</html>"


def _huge(endpoint: Endpoint) -> None:
    endpoint.body = b"[" * (3 << 20)


def _zipped(endpoint: Endpoint) -> None:
    endpoint.body, endpoint.more = b"\x1f\x8b\x08\0", "Content-Encoding: gzip\r\n"


def _cut(endpoint: Endpoint) -> None:
    endpoint.length = 1 << 18


def _silent(endpoint: Endpoint) -> None:
    endpoint.go_on.clear()


@pytest.fixture
def soon_over() -> Iterator[None]:
    """Let a reading take 0.1 s at most."""
    before = key_source.READ_S_MAX
    key_source.READ_S_MAX = 0.1  # type: ignore[misc]
    yield
    key_source.READ_S_MAX = before  # type: ignore[misc]


@pytest.mark.parametrize("damage", [_gone, _elsewhere, _not_keys, _huge, _zipped, _cut, _silent])
@pytest.mark.usefixtures("soon_over")
@in_loop
async def test_what_fails_leaves_the_keys_that_are_known(
    damage: Callable[[Endpoint], None],
) -> None:
    endpoint, clock = Endpoint(key_set(jwk_of(kid="a"))), ManualClock()
    async with (
        served(endpoint) as url,
        source_of(OAuthConfig(jwks_url=url, **FAST), clock) as source,
    ):
        assert await is_known(source, kid="a")
        good = endpoint.body
        damage(endpoint)
        clock.advance_ms(10_000)
        assert not await is_known(source, kid="b")
        await until(lambda: source.metrics.read_failures_total > 1)  # and it is tried again
        assert await is_known(source, kid="a")
        assert source.metrics.known == 1
        endpoint.body, endpoint.status, endpoint.more, endpoint.length = good, "200 OK", "", None
        endpoint.go_on.set()
        reads = source.metrics.reads_total
        await until(lambda: source.metrics.reads_total > reads)


@in_loop
async def test_nobody_is_let_in_while_there_are_no_keys(tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    config = _fast(file.as_uri())
    async with source_of(config) as source:
        assert not await is_known(source)
        await until(lambda: source.metrics.read_failures_total > 2)
        file.write_bytes(key_set(jwk_of()))
        await until(lambda: source.metrics.known == 1)
        assert await is_known(source)


@in_loop
async def test_an_end_leaves_nobody_waiting(tmp_path: Path) -> None:
    """Neither those who wait for a reading, nor those for one that never begins."""
    endpoint, clock = Endpoint(key_set(jwk_of(kid="a"))), ManualClock()
    async with served(endpoint) as url, source_of(OAuthConfig(jwks_url=url), clock) as source:
        assert await is_known(source, kid="a")
        clock.advance_ms(10_000)
        endpoint.go_on.clear()
        async with asyncio.TaskGroup() as group:
            waiting = [group.create_task(is_known(source, kid="b")) for _ in range(3)]
            await until(lambda: endpoint.asked == 2)
            await source.close()
        assert not any(each.result() for each in waiting)
        clock.advance_ms(10_000)
        assert await is_known(source, kid="a")
        assert not await is_known(source, kid="c")


@in_loop
async def test_a_client_that_goes_while_it_waits_leaves_the_reading_to_others() -> None:
    endpoint = Endpoint(key_set(jwk_of()))
    endpoint.go_on.clear()
    async with served(endpoint) as url, source_of(OAuthConfig(jwks_url=url)) as source:
        async with asyncio.TaskGroup() as group:
            gone = group.create_task(is_known(source))
            await until(lambda: endpoint.asked == 1)
            gone.cancel()
            stays = group.create_task(is_known(source))
            endpoint.go_on.set()
        assert stays.result()
        assert endpoint.asked == 1
