"""Turns: in order for a key, side by side for others, whatever becomes of a piece."""

import asyncio

import pytest

from tailrace.broker.partition.turns import Turns, Work
from tests.unit.broker.loops import in_loop, turns


def piece(log: list[str], name: str, gate: asyncio.Event | None = None) -> Work:
    async def work() -> None:
        log.append(f"+{name}")
        if gate is not None:
            await gate.wait()
        log.append(f"-{name}")

    return work


@in_loop
async def test_pieces_of_a_key_follow_each_other_and_other_keys_do_not_wait() -> None:
    queue, log, gate = Turns("tests", 10), [], asyncio.Event()
    assert queue.start("a", piece(log, "a1", gate))
    assert queue.start("a", piece(log, "a2"))
    assert queue.start("b", piece(log, "b1"))
    await turns()
    assert log == ["+a1", "+b1", "-b1"]
    assert queue.is_busy("a")
    gate.set()
    await turns()
    assert log[3:] == ["-a1", "+a2", "-a2"]
    assert not queue.is_busy("a")
    assert not queue.is_busy("b")


@in_loop
async def test_a_piece_that_fails_costs_the_next_nothing(caplog: pytest.LogCaptureFixture) -> None:
    async def fail() -> None:
        raise ValueError("planted")

    queue, log = Turns("tests", 10), []
    queue.start("a", fail)
    queue.start("a", piece(log, "a2"))
    await turns()
    assert log == ["+a2", "-a2"]
    assert "task_failed owner=tests" in caplog.text


@in_loop
async def test_what_waits_is_bounded() -> None:
    queue, log, gate = Turns("tests", 1), [], asyncio.Event()
    assert queue.start("a", piece(log, "a1", gate))
    assert queue.start("a", piece(log, "a2"))
    assert not queue.start("a", piece(log, "a3"))
    gate.set()
    await turns()
    assert log == ["+a1", "-a1", "+a2", "-a2"]


@in_loop
async def test_closing_ends_what_runs_and_starts_nothing_more() -> None:
    queue, log = Turns("tests", 10), []
    queue.start("a", piece(log, "a1", asyncio.Event()))
    queue.start("a", piece(log, "a2"))
    await turns()
    await queue.close()
    assert log == ["+a1"]
    assert not queue.is_busy("a")
