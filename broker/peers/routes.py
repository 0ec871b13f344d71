"""What is needed of others: which broker serves a partition, where brokers are, what they say."""

from collections.abc import Callable
from typing import Any, Final, Protocol, TypeVar

from tailrace.broker.peers.errors import PeerUnavailable
from tailrace.protocol.kafka.api import Api

Q = TypeVar("Q")
R = TypeVar("R")


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


class Ownership(Protocol):
    """Who may open what."""

    def is_mine(self, topic: str, partition: int, /) -> bool:
        """Whether this broker serves a partition."""

    async def refresh(self) -> None:
        """Find out anew who is there. Errors: CoreError."""


class Sender(Protocol):
    """Asks other brokers; `Peers` is one."""

    async def send(
        self,
        broker_id: int,
        api: Api[Q, R],
        request: Q,
        timeout_s: float,
        version_min: int = 0,
        /,
    ) -> R:
        """Return a broker's answer. Errors: PeerError."""


class Alone:
    """The routes of a broker without others: everything is its own, and nobody can be asked."""

    async def send(
        self,
        broker_id: int,
        _api: Api[Any, R],
        _request: object,
        _timeout_s: float,
        _version_min: int = 0,
        /,
    ) -> R:
        """Refuse."""
        raise PeerUnavailable(f"broker {broker_id} is not alive: there are no others")

    def endpoint(self, _broker_id: int, /) -> Place | None:
        """Return None: there are no others."""
        return None

    def listen(self, callback: Callable[[], None], /) -> None:
        """Nothing changes."""

    async def refresh(self) -> None:
        """Nothing changes."""

    def owner(self, _topic: str, _partition: int, /) -> int | None:
        """Return None: whoever asks has it itself."""
        return None

    def is_mine(self, _topic: str, _partition: int, /) -> bool:
        """Everything is."""
        return True


ALONE: Final = Alone()
