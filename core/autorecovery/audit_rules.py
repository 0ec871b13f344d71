"""When to look for ledgers that lost replicas, and which those are. Pure: values in, values out.

A bookie is lost when it is known (a cookie, or a registration that this auditor saw) and not
registered, neither as writable nor as read-only. One whose cookie went is forgotten as soon as it
was audited: somebody gave it up. Then:
- with no delay set, or two or more lost since the last audit: audit now;
- with a delay and one lost: audit when it was away for so long, unless it comes back before;
- the delay set to 0, or anew to what it was: audit now, whatever is lost;
- nothing lost: audit after each period, and once at the beginning; while one bookie is given time
  the period waits, because an audit marks the ledgers of all that are lost.
Nobody registered at all is more likely our error than everybody's death, and nobody could copy
anything: then nothing is audited before a second look, `SECOND_LOOK_S` later.
Source: BookKeeper Auditor, AuditorBookieCheckTask; reference 6.3.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final

from tailrace.protocol.ids import BookieId

SECOND_LOOK_S: Final = 30.0
"""Three session timeouts: who lost only his session with a ZooKeeper that was away is back then."""


@dataclass(frozen=True, slots=True)
class Registrations:
    """Who belongs to a cluster, as one look at its nodes found."""

    known: frozenset[BookieId]
    """Bookies with a cookie."""
    available: frozenset[BookieId]
    """Bookies that are registered, writable or read-only."""


class AuditRules:
    """When one auditor audits. Times are the caller's, in seconds, and never go back."""

    def __init__(self, period_s: float, now_s: float) -> None:
        """`period_s`: between audits though nothing changed; 0: only one, at the beginning."""
        self._period_s = period_s
        self._periodic_s: float | None = now_s
        self._known: set[BookieId] = set()
        self._lost_since: dict[BookieId, float] = {}
        self._audited: set[BookieId] = set()
        """Lost bookies whose ledgers are marked."""
        self._empty_since: float | None = None
        self._delay_s = 0.0
        self._delay_version: int | None = None
        self._is_forced = self._was_forced = False
        self._began_s = now_s

    @property
    def lost(self) -> frozenset[BookieId]:
        """Known bookies that are not registered."""
        return frozenset(self._lost_since)

    @property
    def in_grace(self) -> BookieId | None:
        """The lost bookie that is given time to come back."""
        new = self._lost_since.keys() - self._audited
        return next(iter(new)) if len(new) == 1 and self._delay_s > 0 else None

    def on_registrations(self, seen: Registrations, now_s: float) -> None:
        """Take note of who is registered now."""
        self._known |= seen.known | seen.available
        self._known -= self._audited - seen.known - seen.available  # given up
        lost = self._known - seen.available
        self._lost_since = {at: self._lost_since.get(at, now_s) for at in sorted(lost)}
        self._audited &= lost
        if seen.available:
            self._empty_since = None
        elif self._empty_since is None:
            self._empty_since = now_s

    def on_delay(self, delay_s: float, version: int) -> None:
        """Take note of the delay; `version` rises whenever somebody sets it."""
        was_set = self._delay_version not in (None, version)
        if was_set and (delay_s in (0, self._delay_s)):
            self._is_forced = True
        self._delay_s, self._delay_version = delay_s, version

    def begin_audit(self, now_s: float) -> None:
        """Take note that an audit begins; one of `on_audited` and `on_audit_failed` follows."""
        self._began_s, self._was_forced, self._is_forced = now_s, self._is_forced, False

    def on_audited(self, now_s: float) -> None:
        """Take note that the ledgers of all are marked that were lost from its beginning on.

        Not of one that was back in between: its ledgers were passed by meanwhile.
        """
        self._audited |= {at for at, since in self._lost_since.items() if since <= self._began_s}
        self._periodic_s = now_s + self._period_s if self._period_s else None

    def on_audit_failed(self) -> None:
        """Take note that the audit was cut short: it is due as it was."""
        self._is_forced |= self._was_forced

    def due_s(self, now_s: float) -> float | None:
        """Return when to audit: now, later, or None: when something changes."""
        due_s = self._due_s(now_s)
        if due_s is None or self._empty_since is None:
            return due_s
        return max(due_s, self._empty_since + SECOND_LOOK_S)

    def _due_s(self, now_s: float) -> float | None:
        if self._is_forced:
            return now_s
        new = self._lost_since.keys() - self._audited
        if not new:
            return self._periodic_s
        in_grace = self.in_grace
        return now_s if in_grace is None else self._lost_since[in_grace] + self._delay_s


def lost_members(
    ensembles: Iterable[Collection[BookieId]], *looks: Collection[BookieId]
) -> list[BookieId]:
    """Return the members of a ledger's ensembles that no look found registered, sorted.

    Several looks: who was registered at the beginning of an audit, or is again by now, is not lost
    for it; the next audit judges.
    """
    members = {member for ensemble in ensembles for member in ensemble}
    return sorted(member for member in members if not any(member in look for look in looks))
