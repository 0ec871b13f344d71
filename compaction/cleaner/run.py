"""Where the cleaner computes: in a process of its own, or, in tests, here."""

from typing import TYPE_CHECKING, Protocol, TypeVar, TypeVarTuple

if TYPE_CHECKING:
    from asyncio import Future
    from collections.abc import Callable

    from tailrace.compaction.cleaner.walks import Walks

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class Compute(Protocol):
    """The walks of one worker, wherever they are. Calls begin at once and are done in order."""

    def __call__(self, step: "Callable[[Walks, *Ts], T]", /, *arguments: *Ts) -> "Future[T]":
        """Return what the step will give, or raise.

        Buffers among the arguments must not change until then. Errors: CorruptBatch; Unavailable.
        Cancel: the step is done all the same.
        """
