"""A queue whose users take turns: hosts, and on each host its connections. Pure.

What one user puts is taken in that order. A user with much in it waits for itself: whoever comes
with one piece waits for at most one piece of each other host, and one of each other connection of
its own host each time that host has its turn.
"""

from collections import OrderedDict, deque
from typing import Generic, NamedTuple, Protocol, TypeVar

T = TypeVar("T")


class User(Protocol):
    """Whose work it is: a connection, told from others of its host by its port."""

    @property
    def host(self) -> str: ...
    @property
    def port(self) -> int: ...


class Named(NamedTuple):
    """A user that is no connection."""

    host: str
    port: int = 0


class FairQueue(Generic[T]):
    """Pieces that wait, by user. `waiting_max` and `of_user_max` bound them."""

    def __init__(self, waiting_max: int, of_user_max: int) -> None:
        self._waiting_max = waiting_max
        self._of_user_max = of_user_max
        self._hosts: OrderedDict[str, OrderedDict[int, deque[T]]] = OrderedDict()
        self._count = 0

    def __len__(self) -> int:
        """Return how many wait."""
        return self._count

    def has_room(self, user: User) -> bool:
        """Whether the user may put another piece."""
        if self._count >= self._waiting_max:
            return False
        of_host = self._hosts.get(user.host)
        own = None if of_host is None else of_host.get(user.port)
        return own is None or len(own) < self._of_user_max

    def put(self, user: User, piece: T) -> None:
        """Add a piece behind the user's own; ask `has_room` first."""
        of_host = self._hosts.setdefault(user.host, OrderedDict())
        of_host.setdefault(user.port, deque()).append(piece)
        self._count += 1

    def take(self) -> T:
        """Remove and return the piece whose turn it is. Errors: KeyError if none waits."""
        host, of_host = self._hosts.popitem(last=False)
        port, own = of_host.popitem(last=False)
        piece = own.popleft()
        self._count -= 1
        if own:
            of_host[port] = own  # behind the host's others
        if of_host:
            self._hosts[host] = of_host
        return piece
