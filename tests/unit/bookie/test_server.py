"""What one connection may have in flight, whatever the order of requests and answers."""

import asyncio
from typing import Any

from bookie.server import IN_FLIGHT_MAX, BookieConnection
from core.runtime.budget import Budget
from protocol.bookkeeper.codec import encode_request
from protocol.bookkeeper.messages import (
    AddRequest,
    ErrorResponse,
    OperationType,
    ReadRequest,
    ReadResponse,
    StatusCode,
)
from protocol.ids import LedgerId


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

    def answer(self, count: int) -> None:
        for _ in range(count):
            self.replies.pop(0)(ReadResponse(StatusCode.ENOENTRY, LedgerId(1), 0))


def test_a_late_release_does_not_lift_a_newer_hold() -> None:
    async def story() -> None:
        bookie, channel = Bookie(), Channel()
        budget = Budget("requests", 1 << 20)
        connection = BookieConnection(bookie, budget, set())  # type: ignore[arg-type]
        connection.on_open(channel)  # type: ignore[arg-type]
        frame = b"".join(encode_request(1, ReadRequest(LedgerId(1), 0)))[4:]

        def ask(count: int) -> None:
            for _ in range(count):
                budget.take(len(frame))
                connection.on_frame(memoryview(frame))

        ask(IN_FLIGHT_MAX // 2 + 8)
        bookie.answer(8)  # at half: a release is planned, and harmless so far
        ask(IN_FLIGHT_MAX // 2)
        assert channel.held
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert channel.held, "requests came since the release was planned"
        bookie.answer(IN_FLIGHT_MAX // 2)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert not channel.held

    asyncio.run(story())


def test_adds_that_get_a_status_only_leave_no_room_for_more_reads() -> None:
    async def story() -> None:
        bookie, channel = Bookie(), Channel()
        budget = Budget("requests", 1 << 20)
        connection = BookieConnection(bookie, budget, set())  # type: ignore[arg-type]
        connection.on_open(channel)  # type: ignore[arg-type]
        add = b"".join(encode_request(1, AddRequest(LedgerId(-1), 0, b"key", (b"body",))))[4:]
        read = b"".join(encode_request(1, ReadRequest(LedgerId(1), 0)))[4:]
        for _ in range(3):
            budget.take(len(add))
            connection.on_frame(memoryview(add))
            bookie.replies.pop(0)(ErrorResponse(StatusCode.EBADREQ, OperationType.ADD_ENTRY))
        for _ in range(IN_FLIGHT_MAX):
            budget.take(len(read))
            connection.on_frame(memoryview(read))
        assert channel.held

    asyncio.run(story())
