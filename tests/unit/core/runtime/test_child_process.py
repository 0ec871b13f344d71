"""Another process that computes: what goes there and comes back, and when it ends."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.core.errors import Unavailable
from tailrace.core.runtime.child_process import (
    LARGE_BYTES,
    NICE,
    SLOT_BYTES,
    SLOTS,
    ChildFailed,
    ChildProcess,
    Pieces,
)
from tailrace.protocol.ids import Buffer

ENDED_S = 20
SIZES = (0, 1, LARGE_BYTES - 1, LARGE_BYTES, 300_000)


class Refused(Exception):
    """What a caller expects."""

    is_expected = True


class Kept:
    """A state: what it was made with, and what it was given."""

    def __init__(self, first: str) -> None:
        self.given: list[object] = [first]

    def give(self, value: object) -> int:
        self.given.append(value)
        return len(self.given)

    def all(self) -> list[object]:
        return self.given

    def echo(self, buffers: list[Buffer]) -> list[Buffer]:
        return [bytes(each) if at % 2 else memoryview(each) for at, each in enumerate(buffers)]

    def wait(self) -> None:
        threading.Event().wait()

    def echo_pieces(self, *groups: Sequence[Buffer]) -> list[Pieces]:
        assert all(type(each) is memoryview for group in groups for each in group)
        return [Pieces(group) for group in groups]

    def refuse(self) -> None:
        raise Refused("not today")

    def fail(self) -> None:
        raise ZeroDivisionError("a bug")


@contextmanager
def running() -> Iterator[ChildProcess]:
    child = ChildProcess(Kept, "first")
    try:
        yield child
    finally:
        child.kill()
        child.wait()


@pytest.fixture(scope="module")
def kept() -> Iterator[ChildProcess]:
    """One for all examples."""
    with running() as child:
        yield child


def test_it_keeps_its_state_from_call_to_call() -> None:
    with running() as child:
        assert child.call(Kept.give, {"a": 1}) == 2
        assert child.call(Kept.all) == ["first", {"a": 1}]
        assert child.pid != psutil.Process().pid


@pytest.mark.parametrize("count", [1, 2000])
def test_buffers_of_all_sizes_go_and_come(count: int) -> None:
    """`count`: more than a system call takes at once."""
    sizes = SIZES if count == 1 else (LARGE_BYTES, 7)
    buffers = [memoryview(bytes([n % 251]) * size) for size in sizes for n in range(count)]
    with running() as child:
        for _ in range(2):  # the room of the first call is used again
            assert list(map(bytes, child.call(Kept.echo, buffers))) == list(map(bytes, buffers))


@given(
    st.lists(
        st.lists(st.integers(0, 3) | st.integers(LARGE_BYTES - 1, LARGE_BYTES + 1), max_size=5),
        max_size=3,
    ),
    st.booleans(),
)
def test_pieces_come_one_by_one(kept: ChildProcess, sizes: list[list[int]], is_large: bool) -> None:
    """`is_large`: all of them together fit no slot."""
    groups = [[bytes([size % 251]) * size for size in group] for group in sizes]
    if is_large:
        groups.append([b"x", bytes(SLOT_BYTES)])
    told = kept.call(Kept.echo_pieces, *map(Pieces, groups))
    assert [list(map(bytes, group)) for group in told] == groups


def test_pieces_and_other_buffers_go_together() -> None:
    with running() as child:
        large = memoryview(bytes(LARGE_BYTES))
        told = child.call(Kept.give, [Pieces((b"a", b"bc")), large, Pieces((b"",)), Pieces()])
        assert told == 2
        (_, (first, second, *rest)) = child.call(Kept.all)
        assert [list(map(bytes, each)) for each in (first, *rest)] == [[b"a", b"bc"], [b""], []]
        assert second == large


def test_the_next_call_is_sent_while_one_is_computed() -> None:
    """What is sent is copied: it may change at once, and one call's buffers are not another's."""
    with running() as child:
        buffer = bytearray(LARGE_BYTES)
        for number in range(2 * SLOTS):
            buffer[:] = bytes([number]) * LARGE_BYTES
            if number >= SLOTS:
                assert _first(child.receive()) == number - SLOTS
            child.send(Kept.echo, [memoryview(buffer)])
        for number in range(SLOTS, 2 * SLOTS):
            assert _first(child.receive()) == number


def test_an_answer_is_its_receivers_own() -> None:
    with running() as child:
        answers = []
        for number in range(2 * SLOTS + 1):
            sent = memoryview(bytes([number]) * LARGE_BYTES)
            answers.append(child.call(Kept.echo, [sent]))
        assert [_first(each) for each in answers] == list(range(2 * SLOTS + 1))


@pytest.mark.parametrize("size", [SLOT_BYTES, SLOT_BYTES + 1])
def test_what_just_fits_a_slot_and_what_does_not_come_back(size: int) -> None:
    with running() as child:
        for number in range(SLOTS + 1):
            sent = memoryview(bytes([number]) * size)
            (answer,) = child.call(Kept.echo, [sent])
            assert answer == sent


def test_no_more_calls_are_sent_than_there_are_slots() -> None:
    with running() as child, ThreadPoolExecutor(1) as thread:
        for number in range(SLOTS):
            child.send(Kept.give, number)
        one_more = thread.submit(child.send, Kept.all)
        assert not one_more.done()
        for number in range(SLOTS):
            assert child.receive() == number + 2
        one_more.result(ENDED_S)
        assert child.receive() == ["first", *range(SLOTS)]


def test_who_waits_for_a_slot_hears_that_it_is_gone() -> None:
    with running() as child, ThreadPoolExecutor(1) as thread:
        for _ in range(SLOTS):
            child.send(Kept.wait)
        one_more = thread.submit(child.send, Kept.all)
        child.kill()
        for _ in range(SLOTS):
            with pytest.raises(Unavailable, match=f"process {child.pid}"):
                child.receive()
        with pytest.raises(Unavailable, match=f"process {child.pid}"):
            one_more.result(ENDED_S)


def _first(echoed: list[Buffer]) -> int:
    (buffer,) = echoed
    assert len(set(bytes(buffer))) == 1
    return buffer[0]


def test_what_a_call_raises() -> None:
    with running() as child:
        with pytest.raises(Refused, match="not today"):
            child.call(Kept.refuse)
        with pytest.raises(ChildFailed, match=r"in fail(.|\n)*a bug"):
            child.call(Kept.fail)
        assert child.call(Kept.all) == ["first"]


def test_one_that_is_gone_is_told() -> None:
    with running() as child:
        child.kill()
        with pytest.raises(Unavailable, match=f"process {child.pid}"):
            child.call(Kept.all)


def test_its_priority_counts_beside_its_parent_and_a_terminals_signals_do_not_reach_it() -> None:
    """Linux weighs one session against the other as a whole (sched_autogroup)."""
    with running() as child:
        child.call(Kept.all)
        assert os.getsid(child.pid) == os.getsid(0)
        assert os.getpgid(child.pid) == child.pid
        assert psutil.Process(child.pid).nice() == min(os.nice(0) + NICE, 19)


def test_it_ends_when_its_parent_is_killed() -> None:
    script = (
        "import sys; from tailrace.core.runtime.child_process import ChildProcess\n"
        "child = ChildProcess(dict); child.call(len); print(child.pid, flush=True)\n"
        "sys.stdin.read()"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", script],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        cwd=Path(__file__).resolve().parents[4],
    )  # fmt: skip
    assert parent.stdin is not None
    assert parent.stdout is not None
    with parent:
        child = psutil.Process(int(parent.stdout.readline()))
        assert child.ppid() == parent.pid
        parent.kill()
    _, alive = psutil.wait_procs([child], ENDED_S)
    assert not alive
