"""Long work in pieces: others between two of them, one piece a turn, in order, through cancels."""

import asyncio
from collections.abc import Generator

import pytest

from tailrace.core.runtime.loop_turns import PIECE_UNITS, LoopTurns, Pace


class Other:
    """Counts the turns that the loop gives to somebody else."""

    def __init__(self) -> None:
        self.turns = 0

    async def run(self) -> None:
        while True:
            self.turns += 1
            await asyncio.sleep(0)


def steps(log: list[str], name: str, count: int) -> Generator[None, None, str]:
    for number in range(count):
        log.append(f"{name}{number}")
        yield
    return name


def test_one_piece_goes_on_in_each_turn_and_they_alternate() -> None:
    async def main() -> None:
        turns, log, other = LoopTurns(), [], Other()  # type: ignore[var-annotated]
        watching = asyncio.create_task(other.run())
        async with asyncio.TaskGroup() as group:
            works = [group.create_task(turns.run(steps(log, name, 3))) for name in "abc"]
        assert [work.result() for work in works] == ["a", "b", "c"]
        assert log == ["a0", "b0", "c0", "a1", "b1", "c1", "a2", "b2", "c2"]
        assert other.turns >= 12  # nine pieces, three ends
        watching.cancel()

    asyncio.run(main())


def test_a_turn_of_who_is_cancelled_goes_to_the_next() -> None:
    async def main() -> None:
        turns, log = LoopTurns(), []  # type: ignore[var-annotated]
        first = asyncio.create_task(turns.run(steps(log, "a", 2)))
        second = asyncio.create_task(turns.run(steps(log, "b", 2)))
        await asyncio.sleep(0)
        first.cancel()
        assert await second == "b"
        assert log == ["b0", "b1"]
        with pytest.raises(asyncio.CancelledError):
            await first

    asyncio.run(main())


def test_what_ends_in_its_first_piece_waits_for_nothing() -> None:
    async def main() -> None:
        turns = LoopTurns()
        finishing = turns.finish(steps([], "a", 0))
        with pytest.raises(StopIteration) as done:
            finishing.send(None)
        assert done.value.value == "a"
        assert await turns.finish(steps([], "b", 2)) == "b"

    asyncio.run(main())


@pytest.mark.parametrize(("count", "units", "turns_taken"), [
    (PIECE_UNITS - 1, 1, 0), (PIECE_UNITS, 1, 1), (4 * PIECE_UNITS, 1, 4), (10, PIECE_UNITS, 10),
])  # fmt: skip
def test_others_have_their_turns_by_what_was_done(count: int, units: int, turns_taken: int) -> None:
    async def main() -> None:
        pace, other = Pace(LoopTurns()), Other()
        watching = asyncio.create_task(other.run())
        assert [each async for each in pace.each(range(count), units)] == list(range(count))
        assert (other.turns > 0) is (turns_taken > 0)
        assert other.turns <= 2 * turns_taken
        watching.cancel()

    asyncio.run(main())


def test_loops_within_a_loop_share_a_pace() -> None:
    async def main() -> None:
        pace, other = Pace(LoopTurns()), Other()
        watching = asyncio.create_task(other.run())
        async for _ in pace.each(range(10)):
            async for _ in pace.each(range(PIECE_UNITS // 2)):
                pass
        assert other.turns >= 5
        watching.cancel()

    asyncio.run(main())
