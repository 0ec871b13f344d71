"""What may come when, against a table; sessions that end; authenticating again."""

from typing import Final, Literal, TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.broker.authentication.sasl_session import Phase, Refusal, SaslSession
from tailrace.core.access.sasl.mechanism import Authenticated
from tailrace.protocol.errors import ErrorCode

ONE, OTHER = "SCRAM-SHA-256", "PLAIN"
REAUTH_MS = 60_000

Event: TypeAlias = Literal[
    "versions", "choose", "choose other", "choose none", "more", "right", "wrong", "other"
]
EVENTS: Final = ("versions", "choose", "choose other", "choose none", "more", "right", "wrong",
                 "other")  # fmt: skip

TABLE: Final[dict[tuple[str, str], str]] = {
    ("start", "versions"): "versioned",
    ("start", "choose"): "exchange",
    ("start", "choose other"): "exchange",
    ("versioned", "choose"): "exchange",
    ("versioned", "choose other"): "exchange",
    ("exchange", "more"): "exchange",
    ("exchange", "right"): "known",
    ("known", "other"): "known",
}
"""All that does not end a connection which authenticates once."""


class Driver:
    """Gives a session what a connection does."""

    def __init__(self, reauth_ms: int = 0) -> None:
        self.session = SaslSession((ONE, OTHER), reauth_ms)
        self.now_s = 100.0

    def token(self, outcome: str, user: str = "alice", until_ms: int | None = None) -> object:
        refusal = self.session.token()
        if refusal is not None:
            return refusal
        if outcome == "right":
            who = Authenticated(user, self.session.mechanism, until_ms)
            return self.session.succeed(who, int(self.now_s * 1000), self.now_s)
        if outcome == "wrong":
            self.session.fail()
        return None

    def choose(self, mechanism: str = ONE, version: int = 1) -> Refusal | None:
        return self.session.handshake(mechanism, version, self.now_s)

    def take(self, event: str) -> object:
        if event == "versions":
            return self.session.versions()
        if event.startswith("choose"):
            chosen = {"choose": ONE, "choose other": OTHER, "choose none": "GSSAPI"}
            return self.choose(chosen[event])
        if event == "other":
            return self.session.other("Metadata", self.now_s)
        return self.token(event)

    def known(self, user: str = "alice") -> None:
        self.choose()
        self.token("right", user)


@given(st.lists(st.sampled_from(EVENTS), max_size=12))
def test_what_may_come_when(events: list[str]) -> None:
    driver, state = Driver(), "start"
    for event in events:
        outcome = driver.take(event)
        if state == "known" and event != "other" and event != "versions":
            # Kafka's handlers answer, and nothing changes: no session ends, so none is renewed
            assert isinstance(outcome, Refusal)
            assert (outcome.code, outcome.ends) == (ErrorCode.ILLEGAL_SASL_STATE, False)
            continue
        state = TABLE.get((state, event), "over")
        if state == "over":
            assert driver.session.phase is Phase.OVER
            if event != "wrong":
                assert isinstance(outcome, Refusal)
                assert outcome.ends
        else:
            assert not isinstance(outcome, Refusal)
            assert driver.session.phase.name.lower() == state
    assert (driver.session.other("Fetch", driver.now_s) is None) == (state == "known")


@given(st.lists(st.sampled_from(EVENTS), max_size=12), st.integers(0, 3))
def test_what_ended_stays_ended(events: list[str], reauth_s: int) -> None:
    driver = Driver(reauth_s * 1000)
    for event in events:
        was_over = driver.session.phase is Phase.OVER
        outcome = driver.take(event)
        driver.now_s += 0.7
        if was_over:
            assert isinstance(outcome, Refusal)
            assert outcome.ends
            assert driver.session.phase is Phase.OVER


@pytest.mark.parametrize(
    ("reauth_ms", "token_ms", "lifetime_ms"),
    [(0, None, 0), (5000, None, 5000), (0, 3000, 3000), (5000, 3000, 3000), (2000, 3000, 2000),
     (5000, -10, 0)],
)  # fmt: skip
def test_a_session_ends_with_its_token_or_its_time(
    reauth_ms: int, token_ms: int | None, lifetime_ms: int
) -> None:
    driver = Driver(reauth_ms)
    driver.choose()
    until_ms = None if token_ms is None else int(driver.now_s * 1000) + token_ms
    assert driver.token("right", until_ms=until_ms) == lifetime_ms
    session = driver.session
    if not reauth_ms and token_ms is None:
        assert not session.is_expired(driver.now_s + 1e9)
        return
    assert session.other("Fetch", driver.now_s + lifetime_ms / 1000) is None
    assert session.is_expired(driver.now_s + lifetime_ms / 1000 + 0.1)
    refusal = session.other("Fetch", driver.now_s + lifetime_ms / 1000 + 0.1)
    assert refusal is not None
    assert (refusal.ends, refusal.is_silent) == (True, True)


def test_a_client_authenticates_again_and_its_session_goes_on() -> None:
    driver = Driver(REAUTH_MS)
    driver.known()
    driver.now_s += 70  # late, but nothing else was asked
    assert driver.choose() is None
    assert driver.token("right") == REAUTH_MS
    assert driver.session.other("Fetch", driver.now_s + 59) is None


def test_while_it_authenticates_again_nothing_else_is_done() -> None:
    driver = Driver(REAUTH_MS)
    driver.known()
    driver.choose()
    refusal = driver.session.other("Produce", driver.now_s)
    assert refusal == (ErrorCode.ILLEGAL_SASL_STATE,
                       "Unexpected Kafka request of type Produce during SASL authentication.",
                       True, False)  # fmt: skip


def test_it_stays_who_it_is() -> None:
    driver = Driver(REAUTH_MS)
    driver.known()
    driver.choose()
    refusal = driver.token("right", "bob")
    assert isinstance(refusal, Refusal)
    assert (refusal.code, refusal.ends) == (ErrorCode.SASL_AUTHENTICATION_FAILED, True)
    assert driver.session.known == Authenticated("alice", ONE)


def test_it_stays_with_its_mechanism() -> None:
    driver = Driver(REAUTH_MS)
    driver.known()
    assert driver.choose(OTHER) is None
    refusal = driver.token("right")
    assert isinstance(refusal, Refusal)
    assert (refusal.code, refusal.ends) == (ErrorCode.SASL_AUTHENTICATION_FAILED, True)


def test_it_authenticates_again_once_a_second_at_most() -> None:
    driver = Driver(REAUTH_MS)
    driver.known()
    driver.known()
    refusal = driver.choose()
    assert refusal is not None
    assert (refusal.code, refusal.ends) == (ErrorCode.ILLEGAL_SASL_STATE, False)
    driver.now_s += 1
    assert driver.choose() is None


def test_bare_tokens_come_after_the_first_version_of_a_handshake() -> None:
    driver = Driver(REAUTH_MS)
    driver.choose(version=0)
    assert driver.session.is_bare
    driver.token("right")
    refusal = driver.choose(version=0)
    assert refusal is not None, "bare tokens cannot be told from requests of a client that is known"
    assert not refusal.ends
