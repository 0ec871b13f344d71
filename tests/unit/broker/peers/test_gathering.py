"""Questions that travel together: against an oracle of what each request may hold."""

import asyncio
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.broker.peers import gathering as module
from tailrace.broker.peers.errors import PeerBusy, PeerError, PeerTimeout
from tailrace.broker.peers.gathering import Gathered
from tests.unit.broker.loops import in_loop, turns

AT_ONCE = 3


class World:
    """Brokers whose answers the test lets go: a question's answer is its text, doubled."""

    def __init__(self) -> None:
        self.sent: list[tuple[int, list[str]]] = []
        self.waiting: dict[int, asyncio.Future[None]] = {}
        self.gathered = Gathered("test", AT_ONCE, self.ask_all, self.on_error)

    async def ask_all(self, broker_id: int, questions: Sequence[str]) -> list[str]:
        assert broker_id not in self.waiting, "one request at a time to each broker"
        self.sent.append((broker_id, list(questions)))
        self.waiting[broker_id] = asyncio.get_running_loop().create_future()
        try:
            await self.waiting[broker_id]
        finally:
            del self.waiting[broker_id]
        return [each * 2 for each in questions]

    def on_error(self, question: str, error: PeerError) -> str:
        return f"{question}: {type(error).__name__}"


steps = st.lists(
    st.one_of(
        st.tuples(st.just("ask"), st.integers(1, 2)),
        st.tuples(st.just("answer"), st.integers(1, 2)),
        st.tuples(st.just("fail"), st.integers(1, 2)),
    ),
    max_size=40,
)


@given(steps)
def test_every_question_is_asked_once_in_order_and_answered(steps: list[tuple[str, int]]) -> None:
    @in_loop
    async def body() -> None:
        world = World()
        queues: dict[int, list[str]] = {1: [], 2: []}
        in_flight: dict[int, list[str]] = {1: [], 2: []}
        answers: dict[str, asyncio.Future[str]] = {}
        expected: dict[str, str] = {}
        for number, (what, broker_id) in enumerate(steps):
            queue = queues[broker_id]
            if what == "ask":
                question = f"q{number}"
                answers[question] = world.gathered.ask(broker_id, question)
                queue.append(question)
            elif in_flight[broker_id]:
                if what == "answer":
                    world.waiting[broker_id].set_result(None)
                    expected |= {each: each * 2 for each in in_flight[broker_id]}
                else:
                    world.waiting[broker_id].set_exception(PeerTimeout("late"))
                    expected |= {each: f"{each}: PeerTimeout" for each in in_flight[broker_id]}
                in_flight[broker_id] = []
            await turns()
            if queue and not in_flight[broker_id]:
                in_flight[broker_id], queues[broker_id] = queue[:AT_ONCE], queue[AT_ONCE:]
                assert world.sent[-1] == (broker_id, in_flight[broker_id])
            assert {each: f.result() for each, f in answers.items() if f.done()} == expected
        await world.gathered.close()
        assert all(each.done() for each in answers.values())

    body()


@in_loop
async def test_so_many_wait_and_the_next_is_answered_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "WAITING_MAX", 2)
    world = World()
    first = world.gathered.ask(1, "a")
    await turns()
    waiting = [world.gathered.ask(1, "b"), world.gathered.ask(1, "c")]
    assert world.gathered.ask(1, "d").result() == f"d: {PeerBusy.__name__}"
    other = world.gathered.ask(2, "e")
    await turns()
    world.waiting[1].set_result(None)
    world.waiting[2].set_result(None)
    assert [await first, await other] == ["aa", "ee"]
    assert not any(each.done() for each in waiting)
    await world.gathered.close()
    assert [each.result() for each in waiting] == ["b: PeerLost", "c: PeerLost"]
    assert world.gathered.ask(1, "f").result() == "f: PeerBusy"


@in_loop
async def test_a_bug_leaves_nobody_waiting() -> None:
    async def ask_all(_broker_id: int, questions: Sequence[str]) -> list[str]:
        raise ValueError(questions)

    gathered: Gathered[str, str] = Gathered("test", AT_ONCE, ask_all, lambda q, e: f"{q}: {e}")
    first, second = gathered.ask(1, "a"), gathered.ask(1, "b")
    assert "gave up" in await first
    assert "gave up" in await second
    again = gathered.ask(1, "c")
    assert "gave up" in await again
    await gathered.close()


@in_loop
async def test_who_gave_up_waiting_is_passed_over() -> None:
    world = World()
    gone, there = world.gathered.ask(1, "a"), world.gathered.ask(1, "b")
    await turns()
    gone.cancel()
    world.waiting[1].set_result(None)
    assert await there == "bb"
    await world.gathered.close()
