"""What a test may ask for, read from JSON. Pure.

    {"fault": "drop_next", "api": "Produce", "count": 2}

Nothing is guessed: an unknown name is refused, with the nearest known one.
"""

from collections.abc import Iterable
from typing import Annotated, Any, Final, Literal, TypeAlias

import msgspec
from msgspec import Meta, Struct

from tailrace.core.runtime.config import nearest
from tailrace.core.runtime.stored_json import NOT_JSON
from tailrace.faults.failures import fails_by_partition, fails_by_topic
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.kafka import apis
from tailrace.protocol.kafka.api import Api

COUNT_MAX: Final = 1_000_000
DELAY_MS_MAX: Final = 600_000
SKEW_S_MAX: Final = 10 * 365 * 86_400

Count: TypeAlias = Annotated[int, Meta(ge=1, le=COUNT_MAX)]
Delay: TypeAlias = Annotated[int, Meta(ge=0, le=DELAY_MS_MAX)]
Seconds: TypeAlias = Annotated[float, Meta(ge=-SKEW_S_MAX, le=SKEW_S_MAX)]
Index: TypeAlias = Annotated[int, Meta(ge=0)]
Name: TypeAlias = Annotated[str, Meta(min_length=1)]


class Order(Struct, frozen=True, tag_field="fault", forbid_unknown_fields=True):
    """One fault; each kind is a subclass that is named by its tag."""


class DropNext(Order, frozen=True, tag="drop_next"):
    """Cut the connection instead of answering; `when`: before or after the request took effect."""

    api: str
    count: Count = 1
    when: Literal["before", "after"] = "after"


class DelayAnswers(Order, frozen=True, tag="delay"):
    """Answer late, until it is undone. Unit: ms."""

    api: str
    ms: Delay


class FailNext(Order, frozen=True, tag="fail_next"):
    """Answer with an error instead of doing it; for one topic or partition, the rest is done."""

    api: str
    error: str
    topic: Name | None = None
    partition: Index | None = None
    count: Count = 1

    @property
    def code(self) -> ErrorCode:
        """What the client is told."""
        return ErrorCode[self.error]

    @property
    def is_whole(self) -> bool:
        """Whether it is for all of a request."""
        return self.topic is None and self.partition is None


class CutConnections(Order, frozen=True, tag="cut_connections"):
    """Cut all connections that there are; clients may connect again."""


class SkewClock(Order, frozen=True, tag="skew_clock"):
    """Let the wall clock be ahead, or behind, until it is undone. Unit: seconds."""

    seconds: Seconds


class FillDisk(Order, frozen=True, tag="fill_disk"):
    """Leave no room on the disk, until it is undone."""


class FreeDisk(Order, frozen=True, tag="free_disk"):
    """Undo every `fill_disk`."""


class LoseUnsynced(Order, frozen=True, tag="lose_unsynced"):
    """Undo every write that was not synced, then die as by kill -9: what a power cut leaves."""


class AbortTransaction(Order, frozen=True, tag="abort_transaction"):
    """Abort an open transaction, and shut its producer out, as its timeout would."""

    transactional_id: Name


class Rebalance(Order, frozen=True, tag="rebalance"):
    """Have all members of a consumer group join again."""

    group: Name


RequestFault: TypeAlias = DropNext | DelayAnswers | FailNext
Lasting: TypeAlias = RequestFault | SkewClock | FillDisk
"""What stays set until it is undone, or used up."""
Deed: TypeAlias = CutConnections | FreeDisk | LoseUnsynced | AbortTransaction | Rebalance
"""What is done at once."""

_KINDS: Final[dict[str, Any]] = {
    str(kind.__struct_config__.tag): kind for kind in Order.__subclasses__()
}
_APIS: Final[dict[str, Api[Any, Any]]] = {
    value.name: value for value in vars(apis).values() if isinstance(value, Api)
}
_ERRORS: Final = [name for name in ErrorCode.__members__ if name != ErrorCode.NONE.name]


class BadOrder(Exception):
    """A fault that nobody can carry out. `cause`, `place`, `remedy`: for whoever wrote the test."""

    def __init__(self, cause: str, place: str, remedy: str) -> None:
        super().__init__(cause)
        self.cause = cause
        self.place = place
        self.remedy = remedy


def parse(body: bytes) -> Lasting | Deed:
    """Return what is asked for. Errors: BadOrder."""
    try:
        given = msgspec.json.decode(body)  # json would take half a character, and not a number
    except NOT_JSON as error:
        raise BadOrder(f"the body is no JSON: {error}", "body", '{"fault": "...", ...}') from error
    if not isinstance(given, dict):
        raise BadOrder("the body is no JSON object", "body", '{"fault": "...", ...}')
    kind = _KINDS[_known(given.get("fault"), _KINDS, "fault", "fault")]
    for name in given:
        _known(name, ["fault", *kind.__struct_fields__], "argument", name)
    try:
        order: Lasting | Deed = msgspec.convert(given, kind)
    except msgspec.ValidationError as error:
        cause, _, place = str(error).partition(" - at ")
        wanted = ", ".join(kind.__struct_fields__)
        raise BadOrder(
            cause, place.strip("`$.") or "body", f"{given['fault']} takes {wanted}"
        ) from error
    if isinstance(order, RequestFault):
        _check(order)
    return order


def _check(order: RequestFault) -> None:
    api = _APIS[_known(order.api, _APIS, "API", "api")]
    if not isinstance(order, FailNext):
        return
    _known(order.error, _ERRORS, "error", "error")
    if order.topic is not None and not fails_by_topic(api):
        raise BadOrder(f"{api.name} has no errors of topics", "topic", "leave it out")
    if order.partition is not None and not fails_by_partition(api):
        raise BadOrder(f"{api.name} has no errors of partitions", "partition", "leave it out")


def _known(name: Any, known: Iterable[str], what: str, place: str) -> str:
    names = list(known)
    if isinstance(name, str) and name in names:
        return name
    hint = nearest(name, names).removeprefix("; ") if isinstance(name, str) else ""
    said = "is missing" if name is None else f"{name!r} is unknown"
    listed = (
        ", ".join(sorted(names))
        if len(names) < 20
        else "Kafka's own names, as NOT_LEADER_OR_FOLLOWER or EndTxn"
    )
    raise BadOrder(f"the {what} {said}", place, hint or f"one of {listed}")
