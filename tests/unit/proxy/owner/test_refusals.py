from tailrace.proxy.owner.codes import StatusCode
from tailrace.proxy.owner.operations import Answer
from tailrace.proxy.owner.refusals import ClaimPace, Refusals

FOUND = Answer(StatusCode.FOUND, location="1;1;a:1")
LATER = Answer(StatusCode.STREAM_UNAVAILABLE, "on probation")


def test_a_refusal_is_given_until_its_end() -> None:
    refusals = Refusals()
    refusals.add("s", FOUND, 10.0, 6.0)
    assert refusals.find("s", 15.9) is FOUND
    assert refusals.find("t", 15.9) is None
    assert refusals.find("s", 16.0) is None
    assert len(refusals) == 0


def test_a_longer_refusal_is_not_shortened() -> None:
    refusals = Refusals()
    refusals.add("s", LATER, 0.0, 300.0)
    refusals.add("s", FOUND, 1.0, 6.0)
    assert refusals.find("s", 299.0) is LATER
    refusals.add("s", FOUND, 299.0, 6.0)
    assert refusals.find("s", 300.0) is FOUND


def test_refusals_are_bounded_and_old_ones_go() -> None:
    refusals = Refusals(limit=3)
    for number in range(5):
        refusals.add(f"s{number}", FOUND, 0.0, 10.0)
    assert len(refusals) == 3
    assert refusals.find("s1", 0.0) is None
    refusals.add("late", FOUND, 10.0, 10.0)
    assert len(refusals) == 1


def test_an_owner_that_is_gone_is_named_no_more() -> None:
    refusals = Refusals()
    refusals.add("s", FOUND, 0.0, 6.0, "1;1;a:1")
    refusals.add("own", LATER, 0.0, 6.0, "1;1;a:1")
    refusals.add("other", FOUND, 0.0, 6.0, "1;2;b:1")
    refusals.add("probation", LATER, 0.0, 6.0)
    refusals.forget_owner("1;1;a:1")
    assert len(refusals) == 2
    assert refusals.find("other", 1.0) is FOUND
    assert refusals.find("probation", 1.0) is LATER


def test_claims_of_one_stream_have_a_pause_between_them() -> None:
    pace = ClaimPace(1.0)
    assert pace.begin("s", 5.0) == 0
    assert pace.begin("t", 5.0) == 0
    assert pace.begin("s", 5.25) == 0.75
    assert pace.begin("s", 5.25) == 1.75
    assert pace.begin("s", 9.0) == 0


def test_a_claim_that_was_refused_has_no_pause_behind_it() -> None:
    pace = ClaimPace(1.0)
    assert pace.begin("s", 5.0) == 0
    pace.refused("s")
    pace.refused("t")
    assert pace.begin("s", 5.25) == 0


def test_the_pace_forgets_old_claims() -> None:
    pace = ClaimPace(1.0)
    for number in range(100):
        pace.begin(f"s{number}", float(number))
    assert len(pace._last_s) <= 2
