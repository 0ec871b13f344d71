"""The table of reference 9.4, row by row, and what holds for all rows."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.proxy.client.reactions import (
    Attempts,
    HostLoss,
    Outcome,
    Rules,
    Then,
    Trouble,
    choose,
    leaves_open,
    react,
)
from tailrace.proxy.owner.codes import StatusCode as Code
from tailrace.proxy.owner.operations import Answer
from tailrace.proxy.routing.ring import Host

A, B, C = Host("a", 1), Host("b", 1), Host("c", 1)
OUTCOMES: list[Outcome] = [*Code, *Trouble]

FAIL_TO_CALLER = [
    "OVER_CAPACITY",
    "NOT_IMPLEMENTED",
    "METADATA_EXCEPTION",
    "LOG_EMPTY",
    "LOG_NOT_FOUND",
    "TRUNCATED_TRANSACTION",
    "END_OF_STREAM",
    "TRANSACTION_OUT_OF_ORDER",
    "INVALID_STREAM_NAME",
    "REQUEST_DENIED",
    "TOO_LARGE_RECORD",
    "CHECKSUM_FAILED",
    "STREAM_NOT_READY",
]
"""The reference's two rows."""
OURS = [
    "LOG_EXISTS",
    "ILLEGAL_STATE",
    "INVALID_ENVELOPED_ENTRY",
    "UNSUPPORTED_METADATA_VERSION",
    "LOG_SEGMENT_NOT_FOUND",
    "END_OF_LOG_SEGMENT",
    "LOG_SEGMENT_IS_TRUNCATED",
    "LOG_READ_ERROR",
]


def asked(*hosts: Host) -> Attempts:
    attempts = Attempts()
    for host in hosts:
        attempts.begin(host)
    return attempts


def test_success_makes_the_host_the_owner() -> None:
    reaction = react(Code.SUCCESS, A, asked(A))
    assert (reaction.then, reaction.owner, reaction.is_unknown) == (Then.COMPLETE, A, False)


def test_found_goes_to_the_owner_that_it_names() -> None:
    reaction = react(Code.FOUND, A, asked(A), location="1;3;b:1")
    assert reaction == (Then.RESEND, B, B, False, None, False, False)


@pytest.mark.parametrize("location", ["1;3;a:1", "", "rubbish", "2;3;b:1"])
def test_found_that_names_the_asked_host_or_none_is_routed_again(location: str) -> None:
    reaction = react(Code.FOUND, A, asked(A), location=location)
    assert (reaction.then, reaction.host, reaction.drops_owner) == (Then.RESEND, None, True)
    assert reaction.owner is None


@pytest.mark.parametrize("name", [*FAIL_TO_CALLER, *OURS])
def test_what_no_other_host_would_answer_otherwise_fails_and_keeps_the_owner(name: str) -> None:
    reaction = react(Code[name], A, asked(A))
    assert (reaction.then, reaction.drops_owner) == (Then.FAIL, False)
    assert reaction.loses_host is None


def test_all_other_codes_drop_the_owner_and_go_elsewhere() -> None:
    special = {"SUCCESS", "FOUND", "SERVICE_UNAVAILABLE", "REGION_UNAVAILABLE", "TOO_MANY_STREAMS"}
    for code in Code:
        if code.name in {*FAIL_TO_CALLER, *OURS, *special}:
            continue
        reaction = react(code, A, asked(A))
        assert reaction[:6] == (Then.RESEND, None, None, True, None, False), code
        failfast = react(code, A, asked(A), Rules(stream_failfast=True))
        assert (failfast.then, failfast.drops_owner) == (Then.FAIL, True), code


def test_a_proxy_that_serves_no_more_leaves_the_routing_with_all_that_it_owned() -> None:
    for outcome in (Code.SERVICE_UNAVAILABLE, Trouble.NOT_SERVED):
        reaction = react(outcome, A, asked(A), Rules(stream_failfast=True))
        assert (reaction.then, reaction.loses_host) == (Then.RESEND, HostLoss.REFUSED)


def test_a_region_that_is_unavailable_is_passed_over() -> None:
    reaction = react(Code.REGION_UNAVAILABLE, A, asked(A))
    assert (reaction.then, reaction.marks_region) == (Then.RESEND, True)


def test_too_many_streams_leaves_the_owner_alone() -> None:
    reaction = react(Code.TOO_MANY_STREAMS, A, asked(A))
    assert (reaction.then, reaction.drops_owner) == (Then.RESEND, False)
    failfast = react(Code.TOO_MANY_STREAMS, A, asked(A), Rules(stream_failfast=True))
    assert failfast.then is Then.FAIL


def test_a_host_without_connection_is_away_and_nothing_was_done() -> None:
    reaction = react(Trouble.NOT_CONNECTED, A, asked(A))
    assert (reaction.loses_host, reaction.is_unknown) == (HostLoss.FAILED, False)


def test_a_missing_answer_is_asked_for_again_there_and_then_elsewhere() -> None:
    attempts = asked(A)
    first = react(Trouble.TIMED_OUT, A, attempts)
    assert (first.host, first.drops_owner, first.is_unknown) == (A, False, True)
    attempts.begin(A)
    second = react(Trouble.TIMED_OUT, A, attempts)
    assert (second.host, second.drops_owner, second.is_unknown) == (None, True, True)


def test_an_answer_between_two_missing_ones_begins_the_count_again() -> None:
    attempts = asked(A)
    react(Trouble.TIMED_OUT, A, attempts)
    react(Code.STREAM_UNAVAILABLE, A, attempts)
    assert react(Trouble.TIMED_OUT, B, attempts).host == B


def test_redirects_end_at_their_bound() -> None:
    attempts, rules = asked(A), Rules(redirects_max=2)
    assert react(Code.STREAM_UNAVAILABLE, A, attempts, rules).then is Then.RESEND
    attempts.begin(B)
    assert react(Code.FOUND, B, attempts, rules, "1;0;a:1").then is Then.RESEND
    attempts.begin(A)
    assert react(Code.FOUND, A, attempts, rules, "1;0;b:1").then is Then.FAIL


def test_what_streams_say_of_nothing_written_is_believed() -> None:
    """As the head of proxy/owner/streams.py and its DESIGN promise it."""
    promised = [
        "FOUND",
        "OVER_CAPACITY",
        "TOO_MANY_STREAMS",
        "SERVICE_UNAVAILABLE",
        "TOO_LARGE_RECORD",
        "REQUEST_DENIED",
        "END_OF_STREAM",
        "LOG_NOT_FOUND",
        "INVALID_STREAM_NAME",
        "WRITE_CANCELLED_EXCEPTION",
    ]
    for name in promised:
        assert not leaves_open(Code[name]), name
    for name in ("BK_TRANSMIT_ERROR", "LOCKING_EXCEPTION", "STREAM_UNAVAILABLE", "UNEXPECTED"):
        assert leaves_open(Code[name]), name
    assert [each for each in Trouble if leaves_open(each)] == [Trouble.BROKEN, Trouble.TIMED_OUT]


@settings(max_examples=50)
@given(st.lists(st.tuples(st.sampled_from(OUTCOMES), st.sampled_from([A, B, C])), max_size=20))
def test_every_answer_completes_fails_or_goes_on(answers: list[tuple[Outcome, Host]]) -> None:
    attempts, unknown = Attempts(), False
    for outcome, host in answers:
        attempts.begin(host)
        reaction = react(outcome, host, attempts, location="1;0;c:1")
        unknown |= leaves_open(outcome)
        assert attempts.is_unknown == unknown
        assert reaction.is_unknown == leaves_open(outcome)
        assert (reaction.then is Then.COMPLETE) == (outcome is Code.SUCCESS)
        if reaction.then is not Then.RESEND:
            assert reaction.host is None
            assert reaction.loses_host is None
        assert not (reaction.owner is not None and reaction.drops_owner)


# ---------------------------------------------------------------------- whom to ask


def no_route(_tried: object, _regions: object) -> Host | None:
    return None


@settings(max_examples=50)
@given(
    st.lists(st.sampled_from([A, B, C]), max_size=6),
    st.sampled_from([None, A, B]),
    st.sampled_from([None, A, B]),
    st.sets(st.sampled_from([A, B, C])),
)
def test_untried_hosts_come_at_once_and_others_after_a_pause(
    tried: list[Host], redirect: Host | None, owner: Host | None, known: set[Host]
) -> None:
    attempts, before = asked(*tried), set(tried)

    def first(passed_over: object, _: object) -> Host | None:
        left = [host for host in sorted(known) if host not in passed_over]  # type: ignore[operator]
        return left[0] if left else None

    host, wait_ms = choose(attempts, redirect, owner, first)
    if redirect is not None:
        assert host == redirect
    elif owner is not None and owner not in before:
        assert host == owner
    elif known - before:
        assert host == min(known - before)
    else:
        assert host == min(known, default=None)
    assert (wait_ms == 0) == (host is not None and host not in before)
    assert wait_ms <= 100


def test_the_pause_grows_by_25_ms_up_to_100() -> None:
    found = []
    attempts = Attempts()
    for _ in range(6):
        attempts.begin(A)
        found.append(choose(attempts, A, None, no_route).wait_ms)
    assert found == [25, 50, 75, 100, 100, 100]


def test_a_new_round_asks_regions_again() -> None:
    attempts = asked(A)
    attempts.unavailable.add("eu")
    seen: list[tuple[int, int]] = []

    def first(tried: object, regions: object) -> Host | None:
        seen.append((len(tried), len(regions)))  # type: ignore[arg-type]
        return None if len(tried) else A  # type: ignore[arg-type]

    assert choose(attempts, None, None, first) == (A, 25)
    assert seen == [(1, 1), (0, 0)]
    assert (attempts.tried, attempts.unavailable) == ({}, set())


def test_tried_hosts_are_named_within_a_bound() -> None:
    attempts = asked(*[Host(f"h{n}", 1) for n in range(300)])
    assert attempts.tried_hosts == [f"h{n}:1" for n in range(200, 300)]


def test_every_code_of_the_owner_is_a_row() -> None:
    """A code that is added has to be thought of here: it is one of these, or of 'all others'."""
    assert Answer(Code.SUCCESS).code in Code
    assert len(Code) == 40
