"""PLAIN's server side."""

import asyncio

import pytest

from tailrace.core.access.sasl.mechanism import Authenticated, AuthenticationFailed
from tailrace.core.access.sasl.plain import Plain


class Known:
    """Knows alice's password."""

    async def is_right(self, user: str, password: str) -> bool:
        await asyncio.sleep(0)
        return (user, password) == ("alice", "secret")


def test_who_knows_the_password_comes_in() -> None:
    async def run() -> None:
        for message in (b"\0alice\0secret", b"alice\0alice\0secret"):
            step = await Plain(Known()).exchange().evaluate(message)
            assert step == (b"", Authenticated("alice", "PLAIN"))

    asyncio.run(run())


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (b"\0alice\0wrong", "Invalid username or password"),
        (b"\0nobody\0secret", "Invalid username or password"),
        (b"bob\0alice\0secret", "authorization id that is different"),
        (b"bob\0alice\0wrong", "Invalid username or password"),
        (b"\0\0secret", "username not specified"),
        (b"\0alice\0", "password not specified"),
        (b"", "expected 3 tokens, got 1"),
        (b"\0alice", "expected 3 tokens, got 2"),
        (b"\0alice\0secret\0", "expected 3 tokens, got 4"),
        (b"\0alice\0\xff", "Invalid"),
        (b"\0alice\0" + b"x" * 20_000, "Invalid"),
    ],
)
def test_what_is_refused(message: bytes, text: str) -> None:
    async def run() -> None:
        with pytest.raises(AuthenticationFailed, match=text) as failed:
            await Plain(Known()).exchange().evaluate(message)
        assert "secret" not in str(failed.value)
        assert "secret" not in failed.value.reason

    asyncio.run(run())
