"""What is needed of routing: which broker serves a partition, and where brokers are."""

from collections.abc import Callable
from typing import Final, Protocol


class Place(Protocol):
    """Where a broker listens."""

    @property
    def host(self) -> str:
        """Name or address."""

    @property
    def port(self) -> int:
        """Number of the port."""


class Places(Protocol):
    """Where other brokers are."""

    def endpoint(self, broker_id: int, /) -> Place | None:
        """Return where other brokers reach a broker; None if it is not alive."""

    def listen(self, callback: Callable[[], None], /) -> None:
        """Have `callback` called after each change of what is said here."""


class Routes(Places, Protocol):
    """Who serves what; hints that may be old: the log's fencing is the proof."""

    def owner(self, topic: str, partition: int, /) -> int | None:
        """Return the broker that serves a partition; None if nobody does, or there is none."""

    def is_mine(self, topic: str, partition: int, /) -> bool:
        """Whether this broker serves a partition."""


class Alone:
    """The routes of a broker without others: everything is its own."""

    def endpoint(self, _broker_id: int, /) -> Place | None:
        """Return None: there are no others."""
        return None

    def listen(self, callback: Callable[[], None], /) -> None:
        """Nothing changes."""

    def owner(self, _topic: str, _partition: int, /) -> int | None:
        """Return None: whoever asks has it itself."""
        return None

    def is_mine(self, _topic: str, _partition: int, /) -> bool:
        """Everything is."""
        return True


ALONE: Final = Alone()
