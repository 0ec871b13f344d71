"""A log-in fails as late for a user that there is not as for a wrong password: nobody learns which.

Both are measured in turn, by the processor's time, and the user that there is against itself: what
those two differ by is noise. It catches PBKDF2 left out for unknown users, or done with another
number of iterations, and a SCRAM exchange that ends early, or makes a fake for unknown users only.
"""

import asyncio
import base64
import hashlib
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pytest

from tailrace.core.access.sasl.mechanism import AuthenticationFailed, SaslExchange
from tailrace.core.access.sasl.plain import Plain
from tailrace.core.access.sasl.scram import Scram, ScramIdentity
from tailrace.core.access.users.codec import USER_CODEC
from tailrace.core.access.users.credentials import ScramMechanism
from tailrace.core.access.users.lookup import UserLookup
from tailrace.core.access.users.new_credentials import new_credential
from tailrace.core.access.users.password_checker import PasswordChecker
from tailrace.core.metadata.sqlite import SqliteStore
from tailrace.core.metadata.stored_entities import StoredEntities
from tailrace.core.runtime.clock import SystemClock

KNOWN: Final = "alice"
TRIED: Final = (KNOWN, "wally", KNOWN)
ROUNDS_MAX: Final = 5
"""A machine that is busy may get in the way of four."""
SHARE_MAX: Final = 0.2
"""Of the time that a wrong password takes: what an unknown user may differ by, beside the noise."""

FailsAfter = Callable[[str], Awaitable[tuple[int, ...]]]
"""Let a user log in with a wrong password; return the ns of CPU that each step took."""


@asynccontextmanager
async def users(path: Path) -> AsyncIterator[UserLookup]:
    """Users with one that has a password."""
    store = SqliteStore(path / "metadata.db", SystemClock())
    stored = StoredEntities(store, "/users", USER_CODEC)
    lookup = UserLookup(stored, b"secret")
    await stored.start()
    try:
        credentials = {each: new_credential(each, "right") for each in ScramMechanism}
        await stored.change({KNOWN: lambda _: credentials})
        yield lookup
    finally:
        await stored.close()
        await store.close()


async def step(exchange: SaslExchange, message: bytes) -> tuple[bytes, int]:
    """Return the answer, empty if it was refused, and the ns of all threads: some have PBKDF2."""
    began_ns = time.process_time_ns()
    try:
        answer = (await exchange.evaluate(message)).message
    except AuthenticationFailed:
        answer = b""
    return answer, time.process_time_ns() - began_ns


def is_alike(known: list[int], unknown: list[int], again: list[int]) -> bool:
    """Whether a user that is not there differs from one that is by no more than that by itself."""
    one, other, two = map(statistics.median, (known, unknown, again))
    noise = abs(one - two)
    return min(abs(other - one), abs(other - two)) <= noise + SHARE_MAX * min(one, two)


async def are_alike(fails_after: FailsAfter, times: int) -> bool:
    rounds = [[await fails_after(user) for user in TRIED] for _ in range(times)]
    by_user = (zip(*of_user, strict=True) for of_user in zip(*rounds, strict=True))
    return all(is_alike(*map(list, of_step)) for of_step in zip(*by_user, strict=True))


async def assert_alike(fails_after: FailsAfter, times: int) -> None:
    for _ in range(ROUNDS_MAX):
        if await are_alike(fails_after, times):
            return
    raise AssertionError("a user that is not there takes another time than a wrong password")


def test_plain(tmp_path: Path) -> None:
    async def run() -> None:
        async with users(tmp_path) as lookup:
            passwords = PasswordChecker(lookup)
            plain = Plain(passwords)

            async def fails_after(user: str) -> tuple[int, ...]:
                answer, took_ns = await step(plain.exchange(), f"\0{user}\0wrong".encode())
                assert answer == b""
                return (took_ns,)

            await assert_alike(fails_after, times=40)
            await passwords.close()

    asyncio.run(run())


@pytest.mark.parametrize("mechanism", ScramMechanism)
def test_scram(tmp_path: Path, mechanism: ScramMechanism) -> None:
    proof = base64.b64encode(bytes(hashlib.new(mechanism.hash_name).digest_size)).decode()

    async def run() -> None:
        async with users(tmp_path) as lookup:

            def find(user: str, _: object) -> ScramIdentity | None:
                credential = lookup.credential(mechanism, user)
                return None if credential is None else ScramIdentity(credential, user)

            scram = Scram(mechanism, find, lookup.fake)

            async def fails_after(user: str) -> tuple[int, ...]:
                exchange = scram.exchange()
                challenge, first_ns = await step(exchange, f"n,,n={user},r=abc".encode())
                nonce = challenge.decode().split(",")[0]
                answer, second_ns = await step(exchange, f"c=biws,{nonce},p={proof}".encode())
                assert answer == b""
                return first_ns, second_ns

            await assert_alike(fails_after, times=400)

    asyncio.run(run())
