"""What a client does with the answer to a request, code by code, and which proxy is next. Pure.

Whether what was asked has been done is a fact of its own (`is_unknown`): a connection that broke, a
call without an answer in time, and most codes leave it open. DistributedLog sends the request again
all the same, so a record may be written twice; with a writer's numbers the owner knows it.
Source: reference DistributedLog 9.4; DistributedLogClientImpl.
"""

from collections.abc import Callable, Container
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple, TypeAlias

from tailrace.proxy.owner.codes import StatusCode
from tailrace.proxy.owner.location import parse_location
from tailrace.proxy.routing.ring import Host

BACKOFF_START_MS: Final = 25
BACKOFF_MAX_MS: Final = 100
"""Source: ClientConfig.redirectBackoffStartMs, redirectBackoffMaxMs."""

TRIED_MAX: Final = 100
"""Hosts that a request names as tried; the oldest are left out beyond it."""


class Trouble(Enum):
    """How a call ended without an answer."""

    NOT_CONNECTED = "no connection could be made: nothing was asked"
    BROKEN = "the connection ended before the answer"
    TIMED_OUT = "no answer came in time"
    REFUSED = "the proxy refused the request: nothing was done"
    TOO_LARGE = "the message is above a limit of the proxy: nothing was done"
    NOT_SERVED = "this service is not served there: nothing was done"


Outcome: TypeAlias = StatusCode | Trouble


class Then(Enum):
    """What becomes of the request."""

    COMPLETE = "complete"
    FAIL = "fail"
    RESEND = "resend"


class HostLoss(Enum):
    """Why a host leaves the routing."""

    FAILED = "failed"
    """It cannot be connected to: it is away for a while (`RingHosts.failed`)."""
    REFUSED = "refused"
    """It serves no more (`RingHosts.refused`)."""


class Reaction(NamedTuple):
    """What an answer means for the request, and for what the client knows."""

    then: Then
    host: Host | None = None
    """RESEND: the host to ask; None: the cached owner or routing names it."""
    owner: Host | None = None
    """The owner of the stream, to be kept."""
    drops_owner: bool = False
    """The cached owner of the stream is forgotten."""
    loses_host: HostLoss | None = None
    """The host leaves the routing, and all that it was known to own is forgotten."""
    marks_region: bool = False
    """The host's region is passed over for the rest of the request."""
    is_unknown: bool = False
    """What was asked may have been done."""


class Rules(NamedTuple):
    """Settings of a client that decide on reactions."""

    stream_failfast: bool = False
    """Fail where the stream has no owner now, instead of asking elsewhere."""
    redirects_max: int = -1
    """Times that a request is sent again before it fails; negative: no limit."""


DEFAULT_RULES: Final = Rules()

_FAILING: Final = frozenset(
    {
        StatusCode.OVER_CAPACITY,
        StatusCode.NOT_IMPLEMENTED,
        StatusCode.METADATA_EXCEPTION,
        StatusCode.LOG_EMPTY,
        StatusCode.LOG_NOT_FOUND,
        StatusCode.TRUNCATED_TRANSACTION,
        StatusCode.END_OF_STREAM,
        StatusCode.TRANSACTION_OUT_OF_ORDER,
        StatusCode.INVALID_STREAM_NAME,
        StatusCode.REQUEST_DENIED,
        StatusCode.TOO_LARGE_RECORD,
        StatusCode.CHECKSUM_FAILED,
        StatusCode.STREAM_NOT_READY,
        # Not in Java's table, whose client asks for ever: no proxy answers otherwise.
        StatusCode.LOG_EXISTS,
        StatusCode.ILLEGAL_STATE,
        StatusCode.INVALID_ENVELOPED_ENTRY,
        StatusCode.UNSUPPORTED_METADATA_VERSION,
        StatusCode.LOG_SEGMENT_NOT_FOUND,
        StatusCode.END_OF_LOG_SEGMENT,
        StatusCode.LOG_SEGMENT_IS_TRUNCATED,
        StatusCode.LOG_READ_ERROR,
    }
)

_NOTHING_DONE: Final = frozenset(
    {
        StatusCode.FOUND,
        StatusCode.OVER_CAPACITY,
        StatusCode.TOO_MANY_STREAMS,
        StatusCode.SERVICE_UNAVAILABLE,
        StatusCode.REGION_UNAVAILABLE,
        StatusCode.TOO_LARGE_RECORD,
        StatusCode.REQUEST_DENIED,
        StatusCode.END_OF_STREAM,
        StatusCode.LOG_NOT_FOUND,
        StatusCode.LOG_EXISTS,
        StatusCode.INVALID_STREAM_NAME,
        StatusCode.WRITE_CANCELLED_EXCEPTION,
        StatusCode.TRANSACTION_OUT_OF_ORDER,
        StatusCode.CHECKSUM_FAILED,
        StatusCode.NOT_IMPLEMENTED,
        StatusCode.SUCCESS,
    }
)
"""Codes that say for certain that the request has changed nothing, or what it has."""

_ELSEWHERE: Final = {
    StatusCode.SERVICE_UNAVAILABLE: Reaction(Then.RESEND, loses_host=HostLoss.REFUSED),
    StatusCode.REGION_UNAVAILABLE: Reaction(Then.RESEND, drops_owner=True, marks_region=True),
    Trouble.NOT_CONNECTED: Reaction(Then.RESEND, loses_host=HostLoss.FAILED),
    Trouble.NOT_SERVED: Reaction(Then.RESEND, loses_host=HostLoss.REFUSED),
    Trouble.BROKEN: Reaction(Then.RESEND, drops_owner=True, is_unknown=True),
    Trouble.REFUSED: Reaction(Then.FAIL),
    Trouble.TOO_LARGE: Reaction(Then.FAIL),
}


def leaves_open(outcome: Outcome) -> bool:
    """Tell whether what was asked may have been done, though this is the answer."""
    if isinstance(outcome, Trouble):
        return outcome in (Trouble.BROKEN, Trouble.TIMED_OUT)
    return outcome not in _NOTHING_DONE


@dataclass(slots=True)
class Attempts:
    """Whom one request has asked, until it is complete."""

    tried: dict[Host, None] = field(default_factory=dict)
    """The hosts of this round, in order; a round ends when no other host is left."""
    unavailable: set[str] = field(default_factory=set)
    """Regions that answered REGION_UNAVAILABLE in this round."""
    tries: int = 0
    """How often the request was sent."""
    timeouts: int = 0
    """Calls in a row that one host has not answered in time."""
    is_unknown: bool = False
    """Whether one of the tries may have done what was asked."""

    def begin(self, host: Host) -> None:
        """Take note that the request goes to a host now."""
        self.tries += 1
        self.tried[host] = None

    @property
    def tried_hosts(self) -> list[str]:
        """The hosts of this round, as a WriteContext has them."""
        return [f"{host.name}:{host.port}" for host in list(self.tried)[-TRIED_MAX:]]

    @property
    def backoff_ms(self) -> int:
        """How long to wait before a host is asked that has been asked in this round."""
        return min(BACKOFF_MAX_MS, max(1, self.tries) * BACKOFF_START_MS)


def react(
    outcome: Outcome,
    host: Host,
    attempts: Attempts,
    rules: Rules = DEFAULT_RULES,
    location: str = "",
) -> Reaction:
    """Decide on an answer.

    `host`: the proxy that was asked. `location`: that of the answer, for FOUND.

    It changes `attempts`: what it knows of time-outs and of unknown outcomes.
    """
    if outcome is StatusCode.SUCCESS:
        return Reaction(Then.COMPLETE, owner=host)
    attempts.timeouts = attempts.timeouts + 1 if outcome is Trouble.TIMED_OUT else 0
    reaction = _reaction(outcome, host, attempts, rules, location)
    attempts.is_unknown |= reaction.is_unknown
    is_over = 0 <= rules.redirects_max < attempts.tries
    if reaction.then is Then.RESEND and is_over:
        return reaction._replace(then=Then.FAIL)
    return reaction


def _reaction(
    outcome: Outcome, host: Host, attempts: Attempts, rules: Rules, location: str
) -> Reaction:
    if outcome in _ELSEWHERE:
        return _ELSEWHERE[outcome]
    if outcome is StatusCode.FOUND:
        return _redirect(host, location)
    if outcome is Trouble.TIMED_OUT:
        return _again_or_elsewhere(host, is_first=attempts.timeouts <= 1)
    is_unknown = leaves_open(outcome)
    fails = outcome in _FAILING or rules.stream_failfast
    drops_owner = outcome not in _FAILING and outcome is not StatusCode.TOO_MANY_STREAMS
    then = Then.FAIL if fails else Then.RESEND
    return Reaction(then, drops_owner=drops_owner, is_unknown=is_unknown)


def _again_or_elsewhere(host: Host, *, is_first: bool) -> Reaction:
    """React to a missing answer: another host gets the stream once a hung one's session is over."""
    again = host if is_first else None
    return Reaction(Then.RESEND, host=again, drops_owner=not is_first, is_unknown=True)


def _redirect(host: Host, location: str) -> Reaction:
    at = parse_location(location)
    owner = None if at is None else Host(at.host, at.port)
    if owner is None or owner == host:
        return Reaction(Then.RESEND, drops_owner=True)
    return Reaction(Then.RESEND, host=owner, owner=owner)


class Choice(NamedTuple):
    """Whom to ask, and when."""

    host: Host | None
    """None: no host is known; ask again after the wait."""
    wait_ms: int


First: TypeAlias = Callable[[Container[Host], Container[str]], Host | None]
"""The first host by routing: but those that were tried, and but some regions'."""


def choose(attempts: Attempts, redirect: Host | None, owner: Host | None, first: First) -> Choice:
    """Return the proxy for a request now. `redirect`: as a reaction says. `owner`: the cached one.

    A host that this round has not asked is asked at once, another one after a pause. When all have
    been asked a new round begins.
    """
    if redirect is not None:
        return Choice(redirect, attempts.backoff_ms if redirect in attempts.tried else 0)
    if owner is not None and owner not in attempts.tried:
        return Choice(owner, 0)
    host = first(attempts.tried, attempts.unavailable)
    if host is not None:
        return Choice(host, 0)
    attempts.tried.clear()
    attempts.unavailable.clear()
    return Choice(first((), ()), attempts.backoff_ms)
