"""Who calls: each scheme, what fails and how late, and how many are checked at once."""

import asyncio

import pytest

from tailrace.core.access import callers as module
from tailrace.core.access.authorization_header import basic_header
from tailrace.core.access.callers import ADDRESS_CHECKS_MAX, ANONYMOUS, Call, Callers, Means
from tailrace.core.access.oauth.claims import Bearer
from tailrace.core.access.oauth.compact import TokenRefused
from tailrace.core.access.requester import Requester
from tailrace.core.access.sasl.mechanism import AuthenticationFailed
from tailrace.core.errors import OverCapacity

HOST = "10.0.0.1"


class Known:
    """Passwords and tokens that are known by heart; a test may hold the answers up."""

    def __init__(self) -> None:
        self.checking = 0
        self.gate = asyncio.Event()
        self.gate.set()

    async def is_right(self, user: str, password: str) -> bool:
        self.checking += 1
        await self.gate.wait()
        return (user, password) == ("alice", "right")

    async def bearer(self, token: str) -> Bearer:
        if token != "good":
            raise TokenRefused("a secret reason")
        return Bearer("bob", 7)


def _user_of(certificate: bytes) -> str:
    if certificate != b"carol's":
        raise AuthenticationFailed("the certificate is not that of a user")
    return "carol"


def callers(known: Known, delay_ms: int = 0) -> Callers:
    return Callers(Means(known, known.bearer, _user_of), lambda: delay_ms)


def test_each_scheme_names_its_user_and_the_header_counts_more_than_the_certificate() -> None:
    async def run() -> None:
        door = callers(Known())
        for call, user, expires in (
            (Call(HOST, basic_header("alice", "right")), "alice", None),
            (Call(HOST, "Bearer good"), "bob", 7),
            (Call(HOST, None, b"carol's"), "carol", None),
            (Call(HOST, "Bearer good", b"carol's"), "bob", 7),
        ):
            assert await door.caller(call) == (Requester(f"User:{user}", HOST), expires)
        for header, certificate in (
            (None, None),
            (basic_header("alice", "wrong"), b"carol's"),
            (basic_header("nobody", "right"), None),
            ("Bearer bad", None),
            ("nonsense", b"carol's"),
            (None, b"mallory's"),
        ):
            with pytest.raises(AuthenticationFailed) as refused:
                await door.caller(Call(HOST, header, certificate))
            assert "secret" not in str(refused.value)

    asyncio.run(run())


def test_an_unknown_user_and_a_wrong_password_get_one_text() -> None:
    async def run() -> None:
        texts = set()
        for user, password in (("alice", "wrong"), ("nobody", "right")):
            with pytest.raises(AuthenticationFailed) as found:
                await callers(Known()).caller(Call(HOST, basic_header(user, password)))
            texts.add(str(found.value))
        assert len(texts) == 1

    asyncio.run(run())


def test_a_scheme_that_is_not_offered_is_refused() -> None:
    async def run() -> None:
        only_tokens = Callers(Means(tokens=Known().bearer), lambda: 0)
        assert only_tokens.means.schemes == ("Bearer",)
        for call in (Call(HOST, basic_header("alice", "right")), Call(HOST, None, b"carol's")):
            with pytest.raises(AuthenticationFailed):
                await only_tokens.caller(call)

    asyncio.run(run())


def test_without_any_means_everybody_is_anonymous() -> None:
    async def run() -> None:
        found = await Callers(Means(), lambda: 0).caller(Call(HOST, "Bearer whatever"))
        assert found == (Requester(ANONYMOUS, HOST), None)

    asyncio.run(run())


def test_of_many_calls_at_once_some_are_checked_and_others_wait_for_their_turn() -> None:
    async def run() -> None:
        known = Known()
        door = callers(known)
        known.gate.clear()
        right = Call(HOST, basic_header("alice", "right"))
        calls = [asyncio.ensure_future(door.caller(right)) for _ in range(3 * ADDRESS_CHECKS_MAX)]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert known.checking == ADDRESS_CHECKS_MAX
        other = asyncio.ensure_future(door.caller(right._replace(host="10.0.0.2")))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert known.checking == ADDRESS_CHECKS_MAX + 1, "another address does not wait for them"
        known.gate.set()
        found = [await each for each in (*calls, other)]
        assert {each.requester.host for each in found} == {HOST, "10.0.0.2"}

    asyncio.run(run())


def test_failures_keep_their_turns_until_they_are_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "TURN_S", 0.01)

    async def run() -> None:
        door = callers(Known(), delay_ms=60_000)
        wrong = Call(HOST, basic_header("alice", "wrong"))
        tasks = [asyncio.ensure_future(door.caller(wrong)) for _ in range(ADDRESS_CHECKS_MAX)]
        await asyncio.sleep(0)
        with pytest.raises(OverCapacity):
            await door.caller(wrong)
        assert not any(each.done() for each in tasks)
        assert await door.caller(Call("10.0.0.2", "Bearer good"))
        for each in tasks:
            each.cancel()
        await asyncio.wait(tasks)
        assert await door.caller(Call(HOST, "Bearer good"))

    asyncio.run(run())
