"""Passes that are computed in the process of the test, where it can look and interfere."""

import asyncio
from collections.abc import Callable
from typing import TypeVar, TypeVarTuple

from tailrace.compaction.cleaner.walks import Walks

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class InlineComputer:
    """A Computer that computes when it is asked."""

    def __init__(self, size_bytes: int, load_factor: float) -> None:
        self.walks = Walks(size_bytes, load_factor)
        self.is_closed = False

    def __call__(self, step: Callable[[Walks, *Ts], T], /, *arguments: *Ts) -> "asyncio.Future[T]":
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        try:
            answer.set_result(step(self.walks, *arguments))
        except Exception as error:  # noqa: BLE001 - of the answer
            answer.set_exception(error)
        return answer

    async def close(self) -> None:
        self.is_closed = True
