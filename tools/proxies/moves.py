"""Carrying out moves before a person: progress, one row a move, a summary, the exit code."""

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from tailrace.core.runtime.clock import SystemClock
from tailrace.proxy.balancing.mover import Moved, Mover
from tailrace.proxy.balancing.plan import Move
from tailrace.proxy.balancing.proxies import Registered
from tailrace.tools.errors import CliError
from tailrace.tools.output import Column, note, progress, show_rows
from tailrace.tools.proxies.access import Proxies

MOVE_COLUMNS: Final = [Column("stream"), Column("source"), Column("target"), Column("result")]


async def carry_out(
    proxies: Proxies, members: Sequence[Registered], moves: Sequence[Move], rate: float
) -> list[Moved]:
    """Carry out moves, with a bar for a person. Cancel: says how many were done."""
    done: list[Moved] = []
    mover = Mover(proxies.operator, {each.name: each for each in members}, SystemClock())
    with progress("moving", "streams") as step:
        step(0, len(moves))

        def on_moved(moved: Moved) -> None:
            done.append(moved)
            step(len(done))

        try:
            await mover.run(moves, rate, on_moved)
        except asyncio.CancelledError:
            note(f"interrupted: {_summary(done, len(moves))}; run it again for the rest")
            raise
    return done


def show_moves(moved: Sequence[Moved], *, as_json: bool) -> None:
    """Print what became of each move. Errors: CliError if one failed."""
    show_rows(
        [_row(each.move, each.failure or "moved") for each in moved], MOVE_COLUMNS, as_json=as_json
    )
    failed = sum(bool(each.failure) for each in moved)
    note(_summary(moved, len(moved)))
    if failed:
        raise CliError(
            f"{failed} of {len(moved)} streams were not moved",
            remedy="run it again: what was moved stays moved",
        )


def show_plan(moves: Sequence[Move], *, as_json: bool) -> None:
    """Print moves that are not carried out."""
    show_rows([_row(move, "planned") for move in moves], MOVE_COLUMNS, as_json=as_json)
    note(f"{len(moves)} streams would move; nothing was changed")


def _row(move: Move, result: str) -> dict[str, Any]:
    return {**move._asdict(), "result": result}


def _summary(moved: Sequence[Moved], count: int) -> str:
    return f"{sum(not each.failure for each in moved)} of {count} streams moved"
