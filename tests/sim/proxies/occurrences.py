"""What schedules are to bring about at the proxies' doors, counted: a rare one checks little."""

from collections import Counter
from typing import Final

from tailrace.proxy.owner.codes import StatusCode
from tailrace.proxy.owner.location import parse_location
from tests.sim.proxies.wire import SimCall

COUNTS: Final = (
    "redirect circles",
    "refused between others",
    "lost on their way",
    "stopped regions",
    "fell behind",
)
"""Redirects to a proxy that had redirected this client itself; requests without numbers that were
refused between others of their call; answers to records whose owner lost the stream before they
were confirmed; requests refused for their region; readers too slow for what is kept."""

REFUSALS: Final = frozenset({StatusCode.TOO_LARGE_RECORD, StatusCode.OVER_CAPACITY})
"""Of a record, by a stream that is owned."""


class Occurrences:
    """The counts of one world."""

    def __init__(self) -> None:
        self.answers: Counter[str] = Counter()
        """How often each code was answered to a write."""
        self.circles = 0
        self.refused_between_others = 0
        self._redirected: dict[tuple[str, str], set[str]] = {}
        """Client and stream -> the hosts that have redirected it since it was served."""

    def on_answer(self, call: SimCall, stream: str, code: StatusCode, location: str) -> None:
        """Take note of an answer to a write."""
        self.answers[code.name] += 1
        client = call.source.name
        if code is StatusCode.SUCCESS:
            self._redirected.pop((client, stream), None)
        owner = parse_location(location)
        if code is not StatusCode.FOUND or owner is None:
            return
        hosts = self._redirected.setdefault((client, stream), set())
        hosts.add(call.door.host.name)
        if owner.host in hosts:
            self.circles += 1
            hosts.clear()

    def on_stopped(self, call: SimCall, code: StatusCode, *, is_behind: bool) -> None:
        """Take note of an answer that ended a call; `is_behind`: to a record behind others."""
        self.refused_between_others += is_behind and code in REFUSALS and call.unread > 0

    def counts(self, fallen_behind: int) -> dict[str, int]:
        """Return all by their names. `fallen_behind`: what the read proxies have counted."""
        numbers = (
            self.circles,
            self.refused_between_others,
            self.answers["LOCKING_EXCEPTION"],
            self.answers["REGION_UNAVAILABLE"],
            fallen_behind,
        )
        return dict(zip(COUNTS, numbers, strict=True))
