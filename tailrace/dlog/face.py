"""How something asynchronous gets a blocking face: name by name, with the types that it has."""

from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import wraps
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar

from tailrace.dlog.loop_thread import LoopThread, ThreadEnded
from tailrace.dlog.opening import Closeable, Opening

A = TypeVar("A", bound=Closeable)
B = TypeVar("B", bound=Closeable)
F = TypeVar("F")
P = ParamSpec("P")
T = TypeVar("T")


class Face(Generic[A]):
    """The blocking face of something that is open. In a `with` block it is closed at the end."""

    def __init__(self, inner: A, thread: LoopThread) -> None:
        self._inner = inner
        self._thread = thread

    def close(self) -> None:
        """Close it."""
        with suppress(ThreadEnded):  # its namespace has closed it
            self._thread.run(self._inner.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def blocking(
    call: Callable[Concatenate[A, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Face[A], P], T]:
    """Return the method that makes an asynchronous call on the loop's thread, and waits for it."""

    @wraps(call)
    def run(face: Face[A], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return face._thread.run(lambda: call(face._inner, *args, **kwargs))

    return run


def opening(
    call: Callable[Concatenate[A, P], Opening[B]], face_of: Callable[[B, LoopThread], F]
) -> Callable[Concatenate[Face[A], P], F]:
    """Return the method that opens something on the loop's thread, and gives its blocking face."""

    @wraps(call)
    def run(face: Face[A], /, *args: P.args, **kwargs: P.kwargs) -> F:
        thread = face._thread
        return face_of(thread.run(lambda: call(face._inner, *args, **kwargs)), thread)

    return run
