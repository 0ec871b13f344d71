"""When to audit: tables of what operators are promised, and an oracle that forgets nothing."""

from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.core.autorecovery.audit_rules import (
    SECOND_LOOK_S,
    AuditRules,
    Registrations,
    lost_members,
)
from tailrace.protocol.ids import BookieId

A, B, C = BookieId("a"), BookieId("b"), BookieId("c")
DAY_S = 86_400


def seen(*available: BookieId, known: tuple[BookieId, ...] = (A, B, C)) -> Registrations:
    return Registrations(frozenset(known), frozenset(available))


def rules(delay_s: int = 0) -> AuditRules:
    """Rules after the first audit, at 0, which found everybody."""
    made = AuditRules(DAY_S, 0)
    made.on_delay(delay_s, 0)
    made.on_registrations(seen(A, B, C), 0)
    assert made.due_s(0) == 0
    made.begin_audit(0)
    made.on_audited(0)
    assert made.due_s(0) == DAY_S
    return made


def test_a_lost_bookie_is_audited_at_once_without_a_delay() -> None:
    made = rules()
    made.on_registrations(seen(A, B), 5)
    assert (made.due_s(5), made.lost, made.in_grace) == (5, {C}, None)
    made.begin_audit(5)
    made.on_audited(6)
    assert made.due_s(7) == DAY_S + 6
    made.on_registrations(seen(A, B), 8)
    assert made.due_s(8) == DAY_S + 6
    made.on_registrations(seen(A, B, C), 9)
    made.on_registrations(seen(A, B), 10)
    assert made.due_s(10) == 10


def test_one_lost_bookie_is_given_time_and_cancelled_by_its_return() -> None:
    made = rules(delay_s=60)
    made.on_registrations(seen(A, B), 5)
    assert (made.due_s(5), made.in_grace) == (65, C)
    made.on_registrations(seen(A, B), 30)
    assert made.due_s(30) == 65
    made.on_registrations(seen(A, B, C), 40)
    assert (made.due_s(40), made.in_grace) == (DAY_S, None)
    made.on_registrations(seen(A, B), 50)
    assert made.due_s(50) == 110


def test_two_lost_bookies_are_audited_at_once() -> None:
    made = rules(delay_s=60)
    made.on_registrations(seen(A, B), 5)
    made.on_registrations(seen(A), 7)
    assert (made.due_s(7), made.in_grace) == (7, None)


def test_a_second_loss_after_an_audit_is_given_time_of_its_own() -> None:
    made = rules(delay_s=60)
    made.on_registrations(seen(A, B), 5)
    made.begin_audit(65)
    made.on_audited(66)
    made.on_registrations(seen(A), 70)
    assert (made.due_s(70), made.in_grace) == (130, B)


def test_a_rolling_restart_is_never_audited() -> None:
    made = rules(delay_s=60)
    for at_s, out in ((100, A), (150, B), (200, C)):
        made.on_registrations(seen(*({A, B, C} - {out})), at_s)
        assert made.due_s(at_s) == at_s + 60
        made.on_registrations(seen(A, B, C), at_s + 49)
        assert made.due_s(at_s + 49) == DAY_S


def test_the_period_waits_for_who_is_given_time() -> None:
    made = rules(delay_s=2 * DAY_S)
    made.on_registrations(seen(A, B), DAY_S - 1)
    assert made.due_s(DAY_S + 10) == 3 * DAY_S - 1


def test_a_period_of_0_audits_once() -> None:
    made = AuditRules(0, 3)
    made.on_registrations(seen(A, B, C), 3)
    assert made.due_s(4) == 3
    made.begin_audit(4)
    made.on_audited(5)
    assert made.due_s(6) is None


@pytest.mark.parametrize(("former", "new"), [(60, 60), (60, 0), (0, 0)])
def test_setting_the_delay_anew_or_to_0_audits_now(former: int, new: int) -> None:
    made = rules(delay_s=former)
    made.on_delay(former, 0)
    assert made.due_s(1) == DAY_S
    made.on_delay(new, 1)
    assert made.due_s(2) == 2
    made.begin_audit(2)
    made.on_audit_failed()
    assert made.due_s(3) == 3
    made.begin_audit(3)
    made.on_delay(new, 2)  # again, while it is audited
    made.on_audited(4)
    assert made.due_s(5) == 5


def test_another_delay_counts_from_the_loss() -> None:
    made = rules(delay_s=60)
    made.on_registrations(seen(A, B), 5)
    made.on_delay(600, 1)
    assert made.due_s(10) == 605


def test_who_was_back_during_an_audit_is_audited_again() -> None:
    made = rules()
    made.on_registrations(seen(A, B), 5)
    made.begin_audit(5)
    made.on_registrations(seen(A, B, C), 6)
    made.on_registrations(seen(A, B), 7)
    made.on_audited(8)
    assert made.due_s(9) == 9


def test_nobody_at_all_is_looked_at_twice() -> None:
    made = rules()
    made.on_registrations(seen(), 5)
    assert made.due_s(5) == 5 + SECOND_LOOK_S
    made.on_registrations(seen(), 20)
    assert made.due_s(20) == 5 + SECOND_LOOK_S
    made.on_delay(0, 1)
    assert made.due_s(21) == 5 + SECOND_LOOK_S
    made.on_registrations(seen(A), 22)
    assert made.due_s(22) == 22


def test_a_bookie_without_a_cookie_is_known_from_its_registration() -> None:
    made = rules()
    other = BookieId("d")
    made.on_registrations(seen(A, B, C, other), 1)
    made.on_registrations(seen(A, B, C), 2)
    assert (made.due_s(2), made.lost) == (2, {other})


def test_a_bookie_that_was_given_up_is_forgotten_once_its_ledgers_are_marked() -> None:
    made = rules()
    made.on_registrations(seen(A, B, known=(A, B)), 5)
    assert (made.lost, made.due_s(5)) == ({C}, 5)
    made.begin_audit(5)
    made.on_audited(6)
    made.on_registrations(seen(A, B), 7)
    assert made.lost == {C}
    made.on_registrations(seen(A, B, known=(A, B)), 8)
    assert (made.lost, made.due_s(8)) == (frozenset(), DAY_S + 6)
    made.on_registrations(seen(A, B), 9)  # its cookie is there again: it is new
    assert (made.lost, made.due_s(9)) == ({C}, 9)


@given(
    st.lists(st.lists(st.sampled_from("abcdef"), min_size=1), max_size=4),
    st.lists(st.frozensets(st.sampled_from("abcdef")), min_size=1, max_size=3),
)
def test_lost_members(ensembles: list[list[Any]], looks: list[frozenset[Any]]) -> None:
    expected = []
    for bookie in "abcdef":
        is_member = bookie in "".join("".join(ensemble) for ensemble in ensembles)
        if is_member and bookie not in frozenset().union(*looks):
            expected.append(bookie)
    assert lost_members(ensembles, *looks) == expected


# -- the oracle: keeps all that happened, and works everything out from it each time ---


@dataclass
class Oracle:
    period_s: float
    start_s: float
    looks: list[tuple[float, frozenset[BookieId], frozenset[BookieId], int]] = field(
        default_factory=list
    )
    """When, cookies, who was registered, and how many audits had ended by then."""
    delays: list[tuple[int, float, int]] = field(default_factory=list)
    """How many events came before, and what was set."""
    audits: list[list[float]] = field(default_factory=list)
    """Number of events before, begin and end; without an end: it failed."""
    events: int = 0

    def lost(self) -> dict[BookieId, float]:
        found = {}
        done = [audit for audit in self.audits if len(audit) == 3]
        for bookie in (A, B, C):
            met, since = False, None
            for at_s, cookies, available, ended in self.looks:
                if bookie in available:
                    met, since = True, None
                    continue
                met = met or bookie in cookies
                if met and since is None:
                    since = at_s
                if since is None or bookie in cookies:
                    continue
                if any(since <= audit[1] for audit in done[:ended]):
                    met, since = False, None  # given up
            if since is not None:
                found[bookie] = since
        return found

    def due_s(self, now_s: float) -> float | None:
        done = [audit for audit in self.audits if len(audit) == 3]
        lost = self.lost()
        new = {b: since for b, since in lost.items() if not any(since <= each[1] for each in done)}
        delay_s = self.delays[-1][1] if self.delays else 0
        due: float | None
        if self.is_forced(done):
            due = now_s
        elif new:
            due = min(new.values()) + delay_s if len(new) == 1 and delay_s else now_s
        elif done:
            due = done[-1][2] + self.period_s if self.period_s else None
        else:
            due = self.start_s
        empty_since = None
        for at_s, _, available, _ in reversed(self.looks):
            if available:
                break
            empty_since = at_s
        if due is None or empty_since is None:
            return due
        return max(due, empty_since + SECOND_LOOK_S)

    def is_forced(self, done: list[list[float]]) -> bool:
        last_begun = done[-1][0] if done else -1
        for (_, former, version), (at, delay_s, other) in zip(
            self.delays, self.delays[1:], strict=False
        ):
            if other != version and delay_s in (0, former) and at > last_begun:
                return True
        return False


LOOKS = st.tuples(
    st.just("look"),
    st.frozensets(st.sampled_from([A, B, C])),
    st.frozensets(st.sampled_from([A, B, C])),
)
DELAYS = st.tuples(st.just("delay"), st.sampled_from([0, 10, 60]), st.booleans())
AUDITS = st.tuples(st.just("audit"), st.lists(LOOKS | DELAYS, max_size=3), st.booleans())


@given(
    st.sampled_from([0, 50, DAY_S]),
    st.lists(st.tuples(st.integers(0, 40), LOOKS | DELAYS | AUDITS), max_size=25),
)
def test_rules_against_the_oracle(period_s: int, events: list[tuple[int, Any]]) -> None:
    made, oracle = AuditRules(period_s, 100), Oracle(period_s, 100)
    now_s, version = 100.0, 0

    def apply(event: Any) -> None:
        nonlocal now_s, version
        oracle.events += 1
        if event[0] == "look":
            made.on_registrations(Registrations(event[1], event[2]), now_s)
            ended = sum(len(audit) == 3 for audit in oracle.audits)
            oracle.looks.append((now_s, event[1], event[2], ended))
        elif event[0] == "delay":
            version += event[2]
            # A node keeps its version exactly as long as its value.
            value = event[1] if event[2] or not oracle.delays else oracle.delays[-1][1]
            made.on_delay(value, version)
            oracle.delays.append((oracle.events, value, version))
        else:
            made.begin_audit(now_s)
            oracle.audits.append([oracle.events, now_s])
            for inner in event[1]:
                now_s += 1
                apply(inner)
            now_s += 1
            if event[2]:
                made.on_audited(now_s)
                oracle.audits[[len(a) for a in oracle.audits].index(2, -1)].append(now_s)
            else:
                made.on_audit_failed()

    for pause_s, event in events:
        now_s += pause_s
        apply(event)
        assert made.lost == oracle.lost().keys()
        assert made.due_s(now_s) == oracle.due_s(now_s)
