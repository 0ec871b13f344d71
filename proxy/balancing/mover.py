"""Carrying out moves: one after the other, no faster than asked for; a failed one stops no other.

    GetOwner at the target -> ReleaseTo at the source -> Heartbeat at the target -> GetOwner there
                                   ^------- FOUND, or no answer: again, after a pause

A stream is let go only if its target answers. Between the two calls any proxy may claim the stream;
it is then released there too. A move that fails leaves a stream that the next request claims: it is
nowhere lost. Carrying out a plan again does only what is left of it.
Source: DistributedLog StreamMoverImpl.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from tailrace.core.runtime.clock import Clock
from tailrace.proxy.balancing.plan import Move
from tailrace.proxy.balancing.proxies import ProxyOperator, Registered, Reply
from tailrace.proxy.client.reactions import Trouble
from tailrace.proxy.owner.codes import StatusCode
from tailrace.proxy.owner.location import parse_location
from tailrace.proxy.routing.ring import Host

ATTEMPTS_MAX: Final = 8
"""Claims of one move. With their pauses they take 7 s: longer than a target with a session timeout
of 9 s remembers that another proxy had the stream."""

PAUSE_S_FIRST: Final = 0.1
PAUSE_S_MAX: Final = 2.0

_AGAIN: Final = frozenset(
    {
        StatusCode.FOUND,
        StatusCode.STREAM_UNAVAILABLE,
        StatusCode.ZOOKEEPER_ERROR,
        StatusCode.BK_TRANSMIT_ERROR,
        StatusCode.LOCKING_EXCEPTION,
        Trouble.TIMED_OUT,
        Trouble.BROKEN,
    }
)
"""Answers of a target after which it is asked again: they pass."""

_REFUSED: Final = frozenset(
    {StatusCode.REQUEST_DENIED, StatusCode.INVALID_STREAM_NAME, Trouble.REFUSED}
)
"""Answers of a source that will not let the stream go."""


class Moved(NamedTuple):
    """What became of a move."""

    move: Move
    failure: str = ""
    """"": the target owns the stream."""


def pause_s(attempt: int) -> float:
    """Return the pause behind an attempt (0, 1, ...). Unit: seconds."""
    return min(PAUSE_S_FIRST * 2.0**attempt, PAUSE_S_MAX)


def due_s(began_s: float, per_second: float) -> float:
    """Return when a move may begin, behind one that began then. Unit: seconds.

    `per_second` 0: at once.
    """
    return began_s + 1 / per_second if per_second > 0 else began_s


class Mover:
    """Carries out moves between proxies that are known by their names."""

    def __init__(
        self, operator: ProxyOperator, proxies: Mapping[str, Registered], clock: Clock
    ) -> None:
        self._operator = operator
        self._proxies = proxies
        self._clock = clock
        self._silent: set[str] = set()
        """Targets that did not answer: nothing is moved there any more."""

    async def run(
        self, moves: Sequence[Move], per_second: float, on_moved: Callable[[Moved], None]
    ) -> None:
        """Carry out moves in their order, at most so many a second (0: no limit).

        Errors: none: `on_moved` hears of each move. Cancel: the move that runs may be done or not;
        its stream is with one of the two proxies, or the next request claims it.
        Cost: four round trips a move, the completion of a segment and a claim.
        """
        next_s = self._clock.monotonic_s()
        for move in moves:
            early_s = next_s - self._clock.monotonic_s()
            if early_s > 0:
                await asyncio.sleep(early_s)
            next_s = due_s(self._clock.monotonic_s(), per_second)
            on_moved(Moved(move, await self._move(move)))

    async def _move(self, move: Move) -> str:
        """Return why a move failed; "": it did not."""
        target = self._proxies[move.target]
        if move.target in self._silent:
            return "the target did not answer before"
        view = await self._operator.view(target)
        if view.trouble:
            self._silent.add(move.target)
            return f"the target does not answer: {view.trouble}"
        if await self._operator.owns(target, move.stream):
            return ""
        return await self._hand_over(move.stream, self._proxies[move.source], target)

    async def _hand_over(self, stream: str, source: Registered, target: Registered) -> str:
        owner, failure = source.member.host, ""
        for attempt in range(ATTEMPTS_MAX):
            if attempt:
                await asyncio.sleep(pause_s(attempt - 1))
            released = await self._operator.release_to(owner, stream, target.location)
            if released.outcome in _REFUSED:
                return f"the source does not let it go: {released.words}"
            claimed = await self._operator.heartbeat(target, stream)
            if claimed.outcome is StatusCode.SUCCESS:
                stays = await self._operator.owns(target, stream)
                return "" if stays else "the target lost it at once"
            failure = f"the target does not claim it: {claimed.words}"
            if claimed.outcome not in _AGAIN:
                break
            owner = _owner(claimed, target.member.host) or owner
        return failure


def _owner(claimed: Reply, target: Host) -> Host | None:
    """Return where the stream is by what the target says; None: it does not say."""
    at = parse_location(claimed.location)
    found = None if at is None else Host(at.host, at.port)
    return None if found == target else found
