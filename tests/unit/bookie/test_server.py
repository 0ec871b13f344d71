"""What one connection may have in flight, whatever the order of requests and answers."""

import asyncio
from typing import Any
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.bookie import server as server_module
from tailrace.bookie.config import BookieConfig
from tailrace.bookie.server import ANSWER_BYTES_MAX, IN_FLIGHT_MAX, BookieConnection, BookieServer
from tailrace.core.runtime.budget import Budget
from tailrace.protocol.bookkeeper.codec import encode_request
from tailrace.protocol.bookkeeper.messages import (
    AddRequest,
    ErrorResponse,
    OperationType,
    ReadRequest,
    ReadResponse,
    StatusCode,
)
from tailrace.protocol.ids import LedgerId

BIG = bytes(5_000_000)


class Channel:
    """A socket's side that remembers whether it is held."""

    held = False

    def hold(self, _reason: int) -> None:
        self.held = True

    def release(self, _reason: int) -> None:
        self.held = False

    def send(self, _parts: Any) -> None:
        """Nobody reads."""


class Bookie:
    """Takes requests and answers when it is told to."""

    def __init__(self) -> None:
        self.replies: list[Any] = []

    def submit(self, _request: Any, reply: Any) -> None:
        self.replies.append(reply)

    def answer(self, count: int, body: bytes = b"") -> None:
        for _ in range(count):
            self.replies.pop(0)(ReadResponse(StatusCode.EOK, LedgerId(1), 0, body))


class Client:
    """A connection on which small answers came before, so that most requests are let in."""

    def __init__(self) -> None:
        self.bookie, self.channel = Bookie(), Channel()
        self._budget = Budget("requests", 1 << 20)
        self.connection = BookieConnection(self.bookie, self._budget, {})  # type: ignore[arg-type]
        self.connection.on_open(self.channel)  # type: ignore[arg-type]
        for _ in range(10):
            self.read(1)
            self.bookie.answer(1)

    def read(self, count: int) -> None:
        """Send reads as long as they are received."""
        for _ in range(count):
            if not self.channel.held:
                self.send(b"".join(encode_request(1, ReadRequest(LedgerId(1), 0)))[4:])

    def send(self, frame: bytes) -> None:
        self._budget.take(len(frame))
        self.connection.on_frame(memoryview(frame))


async def turn() -> None:
    """Let what is planned for the next turn of the loop happen."""
    await asyncio.sleep(0)
    await asyncio.sleep(0)


def test_a_late_release_does_not_lift_a_newer_hold() -> None:
    async def story() -> None:
        client = Client()
        client.read(IN_FLIGHT_MAX)
        assert client.channel.held
        client.bookie.answer(IN_FLIGHT_MAX // 2)  # a release is planned
        client.channel.held = False  # and others let requests in that were read before
        client.read(IN_FLIGHT_MAX)
        assert client.channel.held
        await turn()
        assert client.channel.held, "requests came since the release was planned"
        client.bookie.answer(IN_FLIGHT_MAX // 2)
        await turn()
        assert not client.channel.held

    asyncio.run(story())


def test_adds_that_get_a_status_only_leave_no_room_for_more_reads() -> None:
    async def story() -> None:
        client = Client()
        add = b"".join(encode_request(1, AddRequest(LedgerId(-1), 0, b"key", (b"body",))))[4:]
        for _ in range(3):
            client.send(add)
            error = ErrorResponse(StatusCode.EBADREQ, OperationType.ADD_ENTRY)
            client.bookie.replies.pop(0)(error)
        client.read(2 * IN_FLIGHT_MAX)
        assert len(client.bookie.replies) == IN_FLIGHT_MAX

    asyncio.run(story())


@given(st.lists(st.tuples(st.integers(0, 100), st.integers(0, 5_000_000)), max_size=30))
def test_answers_in_work_are_bounded_by_the_size_of_those_before(
    steps: list[tuple[int, int]],
) -> None:
    async def story() -> None:
        client = Client()
        for count, size in steps:
            client.read(count)
            answers = min(count, len(client.bookie.replies))
            client.bookie.answer(answers, memoryview(BIG)[:size])  # type: ignore[arg-type]
            if answers:
                limit = max(1, min(IN_FLIGHT_MAX, ANSWER_BYTES_MAX // (size + 1)))
                before = len(client.bookie.replies)
                await turn()
                client.read(1000)
                assert len(client.bookie.replies) <= max(limit, before)
        while client.bookie.replies:  # whatever came before, everything is read in the end
            client.bookie.answer(1)
            await turn()
        assert not client.channel.held

    asyncio.run(story())


def test_a_bug_over_one_connection_keeps_no_other_from_being_cut(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server_module, "STALL_CHECK_S", 0.001)

    async def story() -> None:
        cut = asyncio.Event()
        bad, stalled = Mock(), Mock()
        bad.channel.is_stalled.side_effect = ZeroDivisionError("a bug")
        stalled.channel.is_stalled.return_value = True
        stalled.channel.abort.side_effect = lambda _why: cut.set()
        server = BookieServer(Mock(), BookieConfig(port=0))
        await server.start()
        server._connections.update({bad: None, stalled: None})
        async with asyncio.timeout(20):
            await cut.wait()
            cut.clear()
            await cut.wait()  # again and again
        await server.close()

    asyncio.run(story())
