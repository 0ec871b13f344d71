"""Frames from bytes, backpressure, and what a bad peer gets: against a transport made of lists."""

import asyncio
import logging
import struct
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.core.runtime.budget import Budget
from tailrace.core.runtime.frame_user import FrameLimits
from tailrace.core.runtime.net import HOLD_USER, FrameChannel
from tailrace.core.runtime.receive_buffer import ReceiveBuffer
from tailrace.core.runtime.unfinished import AHEAD_BYTES_MAX, FIRST_BYTES, PROGRESS_BYTES_MIN
from tailrace.protocol.errors import BadValue


class FakeTransport(asyncio.Transport):
    """Remembers what it was told."""

    def __init__(self) -> None:
        super().__init__()
        self.reading = True
        self.closed = False
        self.aborted = False
        self.unsent = 0
        self.written: list[bytes] = []

    def get_extra_info(self, name: str, default: object = None) -> object:
        return ("10.0.0.1", 5) if name == "peername" else default

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self.high, self.low = high, low

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def writelines(self, list_of_data: Sequence[bytes]) -> None:  # type: ignore[override]
        self.written.extend(bytes(part) for part in list_of_data)

    def pause_reading(self) -> None:
        assert self.reading
        self.reading = False

    def resume_reading(self) -> None:
        assert not self.reading
        self.reading = True

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.aborted = True


class Recorder:
    """A frame user that keeps what it got."""

    def __init__(self) -> None:
        self.frames: list[bytes] = []
        self.channel: FrameChannel | None = None
        self.drained = 0
        self.on_drain: Callable[[], None] = lambda: None
        self.closed = 0
        self.on_each: Callable[[memoryview], None] = lambda frame: None

    def on_open(self, channel: FrameChannel) -> None:
        self.channel = channel

    def on_frame(self, frame: memoryview) -> None:
        assert not frame.readonly
        self.frames.append(bytes(frame))
        self.on_each(frame)

    def on_drained(self) -> None:
        self.drained += 1
        self.on_drain()

    def on_close(self, error: Exception | None) -> None:
        self.closed += 1


class Rig:
    """One channel between a fake transport and a recorder, inside a loop."""

    def __init__(
        self,
        limits: FrameLimits | None = None,
        budget: int = 1 << 30,
        receive: ReceiveBuffer | None = None,
    ) -> None:
        self.user = Recorder()
        self.budget = Budget("request bytes", budget)
        self.transport = FakeTransport()
        self.receive = receive or ReceiveBuffer(4096)
        self.channel = FrameChannel(self.user, limits or FrameLimits(), self.budget, self.receive)
        self.channel.connection_made(self.transport)

    def feed(self, data: bytes, step: int = 1 << 30) -> None:
        """Bring bytes as reads of at most `step`, as long as the channel reads."""
        at = 0
        while at < len(data) and self.transport.reading and not self.transport.closed:
            buffer = self.channel.get_buffer(-1)
            n = min(len(buffer), step, len(data) - at)
            assert n > 0
            buffer[:n] = data[at : at + n]
            del buffer
            self.channel.buffer_updated(n)
            at += n


def framed(*bodies: bytes) -> bytes:
    return b"".join(struct.pack(">i", len(body)) + body for body in bodies)


def run(test: Callable[[], None]) -> None:
    async def body() -> None:
        test()

    asyncio.run(body())


@settings(max_examples=150, deadline=None)
@given(st.lists(st.binary(max_size=9000), max_size=6), st.integers(1, 5000))
def test_frames_arrive_whole_however_the_bytes_are_cut(bodies: list[bytes], step: int) -> None:
    def check() -> None:
        rig = Rig()
        rig.feed(framed(*bodies), step)
        assert rig.user.frames == bodies
        assert rig.budget.used == sum(len(body) for body in bodies)

    run(check)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.binary(max_size=600), max_size=12), st.integers(1, 700), st.integers(1, 4))
def test_holding_keeps_every_byte_and_the_order(bodies: list[bytes], step: int, every: int) -> None:
    def check() -> None:
        rig = Rig()
        data = framed(*bodies)
        rig.user.on_each = lambda frame: (
            rig.channel.hold(HOLD_USER) if len(rig.user.frames) % every == 0 else None
        )
        fed = 0
        while fed < len(data):
            while not rig.transport.reading:
                before = len(rig.user.frames)
                rig.channel.release(HOLD_USER)
                assert len(rig.user.frames) <= before + every
            n = min(step, len(data) - fed, len(rig.channel.get_buffer(-1)))
            rig.feed(data[fed : fed + n])
            fed += n
        while not rig.transport.reading:
            rig.channel.release(HOLD_USER)
        assert rig.user.frames == bodies

    run(check)


@pytest.mark.parametrize("size", [-1, -(2**31), 1001, 2**31 - 1])
def test_a_size_out_of_bounds_closes_with_one_line(
    size: int, caplog: pytest.LogCaptureFixture
) -> None:
    def check() -> None:
        rig = Rig(FrameLimits(frame_bytes_max=1000))
        rig.feed(framed(b"fine") + struct.pack(">i", size) + b"x" * 50)
        assert rig.user.frames == [b"fine"]
        assert rig.transport.closed

    with caplog.at_level(logging.INFO):
        run(check)
    assert len(caplog.records) == 1
    assert "10.0.0.1:5" in caplog.records[0].getMessage()


MEBIBYTE = 1 << 20


def test_an_announced_size_allocates_only_as_bytes_come() -> None:
    def check() -> None:
        rig = Rig()
        unfinished = rig.receive.unfinished
        rig.feed(struct.pack(">i", 90 * MEBIBYTE) + b"x" * 100)
        assert len(rig.channel.get_buffer(-1)) == FIRST_BYTES - 100
        assert unfinished.used == FIRST_BYTES
        rig.feed(b"y" * FIRST_BYTES)
        assert unfinished.used == 90 * MEBIBYTE
        assert len(rig.channel.get_buffer(-1)) <= AHEAD_BYTES_MAX
        rig.feed(b"y" * (AHEAD_BYTES_MAX + 5))
        assert len(rig.channel.get_buffer(-1)) <= 2 * AHEAD_BYTES_MAX
        assert rig.budget.used == 0
        rig.channel.connection_lost(None)
        assert (unfinished.used, rig.budget.used) == (0, 0)

    run(check)


def test_unfinished_frames_wait_for_each_other_and_whole_ones_for_none() -> None:
    body = b"b" * (3 * MEBIBYTE)

    def check() -> None:
        receive = ReceiveBuffer(4096, unfinished_bytes_max=MEBIBYTE)
        first, second, third, small = (Rig(receive=receive) for _ in range(4))
        first.feed(framed(body)[:-1])
        for rig in (second, third):
            rig.feed(framed(body))
            assert not rig.transport.reading
        small.feed(framed(b"small"))
        assert small.user.frames == [b"small"]
        second.channel.connection_lost(None)
        first.feed(b"b")
        assert first.user.frames == [body]
        assert third.transport.reading
        third.feed(framed(body)[4 + FIRST_BYTES :])
        assert third.user.frames == [body]
        assert receive.unfinished.used == 0
        assert third.budget.used == len(body)

    run(check)


def test_a_large_frame_grows_to_its_size_and_keeps_its_bytes() -> None:
    body = bytes(range(256)) * (20 * 1024)  # 5 MiB

    def check() -> None:
        rig = Rig()
        rig.feed(framed(body, b"next"), 300_000)
        assert rig.user.frames == [body, b"next"]

    run(check)


def test_a_full_budget_stops_reading_until_it_is_given_back() -> None:
    def check() -> None:
        rig = Rig(budget=10)
        rig.feed(framed(b"a" * 10, b"b" * 10, b"c"))
        assert rig.user.frames == [b"a" * 10]
        assert not rig.transport.reading
        rig.budget.give(10)
        assert len(rig.user.frames) == 2
        rig.budget.give(10)
        assert rig.user.frames[2] == b"c"
        assert rig.transport.reading

    run(check)


def test_a_frame_that_became_whole_waits_for_the_budget_too() -> None:
    def check() -> None:
        rig = Rig(budget=10)
        rig.feed(framed(b"a" * 9000)[:100])
        rig.budget.take(10)
        rig.feed(framed(b"a" * 9000, b"b")[100:], 8904)
        assert rig.user.frames == []
        assert not rig.transport.reading
        rig.budget.give(10)
        assert rig.user.frames == [b"a" * 9000]
        assert rig.budget.used == 9000
        rig.feed(framed(b"b"))
        rig.budget.give(9000)
        assert rig.user.frames[1:] == [b"b"]
        assert rig.receive.unfinished.used == 0

    run(check)


def test_a_closed_channel_waits_for_no_budget() -> None:
    def check() -> None:
        rig = Rig(budget=4)
        rig.feed(framed(b"aaaa", b"bbbb"))
        rig.channel.connection_lost(None)
        rig.budget.give(4)
        assert rig.user.frames == [b"aaaa"]
        assert rig.user.closed == 1

    run(check)


def test_a_peer_that_does_not_drain_is_not_read_and_then_stalled() -> None:
    def check() -> None:
        rig = Rig(FrameLimits(write_high_bytes=100, stall_s=30))
        now = asyncio.get_running_loop().time()
        rig.transport.unsent = 500
        rig.channel.pause_writing()
        assert rig.channel.write_blocked
        assert not rig.transport.reading
        assert not rig.channel.is_stalled(now + 20)
        rig.transport.unsent = 400  # slow, but it moves
        assert not rig.channel.is_stalled(now + 40)
        assert not rig.channel.is_stalled(now + 60)
        assert rig.channel.is_stalled(now + 71)
        rig.transport.unsent = 0
        rig.channel.resume_writing()
        assert rig.user.drained == 1
        assert rig.transport.reading
        assert not rig.channel.is_stalled(now + 1000)

    run(check)


def test_a_frame_that_stops_half_way_is_stalled() -> None:
    def check() -> None:
        rig = Rig(FrameLimits(stall_s=5))
        rig.feed(framed(b"whole") + b"\0\0\0\x09part")
        now = asyncio.get_running_loop().time()
        assert not rig.channel.is_stalled(now + 4)
        assert rig.channel.is_stalled(now + 6)

    run(check)


def test_a_frame_that_drips_is_stalled_and_one_that_is_only_slow_is_not() -> None:
    def check() -> None:
        rig = Rig(FrameLimits(stall_s=5))
        now = asyncio.get_running_loop().time()
        rig.feed(struct.pack(">i", 10 * MEBIBYTE))
        rig.feed(b"s" * PROGRESS_BYTES_MIN)
        assert not rig.channel.is_stalled(now + 6)
        rig.feed(b"s" * PROGRESS_BYTES_MIN)
        assert not rig.channel.is_stalled(now + 10)
        assert not rig.channel.is_stalled(now + 12)
        rig.feed(b"s" * (PROGRESS_BYTES_MIN - 1))
        rig.channel.hold(HOLD_USER)
        assert not rig.channel.is_stalled(now + 30)
        rig.channel.release(HOLD_USER)
        assert not rig.channel.is_stalled(now + 34)
        assert rig.channel.is_stalled(now + 36)

    run(check)


def test_a_protocol_error_closes_with_one_line_and_our_bug_with_a_traceback(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def bad(frame: memoryview) -> None:
        raise BadValue("nonsense")

    def bug(frame: memoryview) -> None:
        raise ZeroDivisionError

    def check() -> None:
        first, second = Rig(), Rig()
        first.user.on_each = bad
        first.feed(framed(b"x", b"y"))
        assert (first.transport.closed, len(first.user.frames)) == (True, 1)
        second.user.on_each = bug
        second.feed(framed(b"x"))
        assert second.transport.aborted
        third = Rig()
        third.user.on_drain = lambda: bad(memoryview(b""))
        third.channel.pause_writing()
        third.channel.resume_writing()
        assert third.transport.closed

    run(check)
    assert [bool(record.exc_info) for record in caplog.records] == [False, True, False]


def test_what_is_sent_leaves_in_order_and_nothing_after_the_close() -> None:
    def check() -> None:
        rig = Rig()
        rig.channel.send([b"a", memoryview(b"b")])
        rig.channel.close()
        rig.channel.send([b"c"])
        assert rig.transport.written == [b"a", b"b"]
        assert rig.transport.closed

    run(check)
