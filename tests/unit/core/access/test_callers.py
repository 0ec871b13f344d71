"""Who calls: each scheme, what fails and how late, and how many are checked at once."""

import asyncio

import pytest

from tailrace.core.access.authorization_header import basic_header
from tailrace.core.access.callers import ADDRESS_CHECKS_MAX, ANONYMOUS, Call, Callers, Means
from tailrace.core.access.requester import Requester
from tailrace.core.access.sasl.mechanism import Authenticated, AuthenticationFailed
from tailrace.core.errors import OverCapacity

HOST = "10.0.0.1"


class Known:
    """Passwords and tokens that are known by heart; a test may hold the answers up."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.gate.set()

    async def is_right(self, user: str, password: str) -> bool:
        await self.gate.wait()
        return (user, password) == ("alice", "right")

    async def user_of(self, token: str) -> Authenticated:
        if token != "good":
            raise AuthenticationFailed("the token is not valid")
        return Authenticated("bob", "OAUTHBEARER")


def _user_of(certificate: bytes) -> str:
    if certificate != b"carol's":
        raise AuthenticationFailed("the certificate is not that of a user")
    return "carol"


def callers(known: Known, delay_ms: int = 0) -> Callers:
    return Callers(Means(known, known, _user_of), lambda: delay_ms)


def test_each_scheme_names_its_user_and_the_header_counts_more_than_the_certificate() -> None:
    async def run() -> None:
        door = callers(Known())
        for call, user in (
            (Call(HOST, basic_header("alice", "right")), "alice"),
            (Call(HOST, "Bearer good"), "bob"),
            (Call(HOST, None, b"carol's"), "carol"),
            (Call(HOST, "Bearer good", b"carol's"), "bob"),
        ):
            assert await door.requester(call) == Requester(f"User:{user}", HOST)
        for header, certificate in (
            (None, None),
            (basic_header("alice", "wrong"), b"carol's"),
            (basic_header("nobody", "right"), None),
            ("Bearer bad", None),
            ("nonsense", b"carol's"),
            (None, b"mallory's"),
        ):
            with pytest.raises(AuthenticationFailed):
                await door.requester(Call(HOST, header, certificate))

    asyncio.run(run())


def test_an_unknown_user_and_a_wrong_password_get_one_text() -> None:
    async def run() -> None:
        texts = set()
        for user, password in (("alice", "wrong"), ("nobody", "right")):
            with pytest.raises(AuthenticationFailed) as found:
                await callers(Known()).requester(Call(HOST, basic_header(user, password)))
            texts.add(str(found.value))
        assert len(texts) == 1

    asyncio.run(run())


def test_a_scheme_that_is_not_offered_is_refused() -> None:
    async def run() -> None:
        only_tokens = Callers(Means(tokens=Known()), lambda: 0)
        assert only_tokens.means.schemes == ("Bearer",)
        for call in (Call(HOST, basic_header("alice", "right")), Call(HOST, None, b"carol's")):
            with pytest.raises(AuthenticationFailed):
                await only_tokens.requester(call)

    asyncio.run(run())


def test_without_any_means_everybody_is_anonymous() -> None:
    async def run() -> None:
        found = await Callers(Means(), lambda: 0).requester(Call(HOST, "Bearer whatever"))
        assert found == Requester(ANONYMOUS, HOST)

    asyncio.run(run())


def test_an_address_has_so_many_calls_checked_and_others_go_on() -> None:
    async def run() -> None:
        known = Known()
        door = callers(known)
        known.gate.clear()
        right = Call(HOST, basic_header("alice", "right"))
        async with asyncio.TaskGroup() as group:
            waiting = [group.create_task(door.requester(right)) for _ in range(ADDRESS_CHECKS_MAX)]
            await asyncio.sleep(0)
            with pytest.raises(OverCapacity):
                await door.requester(right)
            other = group.create_task(door.requester(right._replace(host="10.0.0.2")))
            known.gate.set()
        assert {each.result().host for each in (*waiting, other)} == {HOST, "10.0.0.2"}
        await door.requester(right)

    asyncio.run(run())


def test_a_failure_keeps_its_place_until_its_answer_goes_out() -> None:
    async def run() -> None:
        door = callers(Known(), delay_ms=60_000)
        wrong = Call(HOST, basic_header("alice", "wrong"))
        tasks = [asyncio.ensure_future(door.requester(wrong)) for _ in range(ADDRESS_CHECKS_MAX)]
        await asyncio.sleep(0)
        with pytest.raises(OverCapacity):
            await door.requester(wrong)
        assert not any(each.done() for each in tasks)
        for each in tasks:
            each.cancel()
        await asyncio.wait(tasks)
        assert await door.requester(Call(HOST, "Bearer good"))

    asyncio.run(run())
