import pytest

from tailrace.core.errors import LedgerFenced, OwnershipAcquireFailed
from tailrace.protocol.distributedlog.dlsn import DLSN
from tailrace.proxy.owner.codes import StatusCode
from tailrace.proxy.owner.location import ProxyLocation, parse_location
from tailrace.proxy.owner.operations import (
    Answer,
    Heartbeat,
    Truncate,
    Write,
    WriteBulk,
    answer_of,
    bulk_answer,
    is_own_lock,
)

OWN = ProxyLocation(3, "proxy-3.example", 4181)


@pytest.mark.parametrize(
    "location",
    [OWN, ProxyLocation(-1, "10.0.0.1", 0), ProxyLocation(0, "[::1]", 65_535)],
)
def test_a_location_is_what_its_text_says(location: ProxyLocation) -> None:
    assert parse_location(location.text) == location


def test_the_text_is_distributedlogs() -> None:
    assert OWN.text == "1;3;proxy-3.example:4181"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "tailrace",
        "2;3;host:1",
        "1;3;host",
        "1;3;host:",
        "1;3;host:65536",
        "1;3;:1",
        "1;x;host:1",
        "1;-2;host:1",
        "1;2147483648;host:1",
        "1;3;ho st:1",
        "1;3;host:1;",
        "1;3;host:1\n",
        "1;٣;host:1",
        "localhost/127.0.0.1",
    ],
)
def test_what_is_no_location_is_none(text: str) -> None:
    assert parse_location(text) is None


@pytest.mark.parametrize(
    ("owner", "code", "location"),
    [
        ("1;4;other:4181", StatusCode.FOUND, "1;4;other:4181"),
        (OWN.text, StatusCode.STREAM_UNAVAILABLE, ""),
        ("a-broker", StatusCode.LOCKING_EXCEPTION, ""),
        ("", StatusCode.LOCKING_EXCEPTION, ""),
    ],
)
def test_an_owner_is_a_location_that_a_client_can_ask(
    owner: str, code: StatusCode, location: str
) -> None:
    error = OwnershipAcquireFailed("no", current_owner=owner)
    assert answer_of(error, OWN) == Answer(code, "no", location)
    assert is_own_lock(error, OWN) == (owner == OWN.text)


def test_any_other_error_has_its_code_and_its_text() -> None:
    assert answer_of(LedgerFenced("gone"), OWN) == Answer(StatusCode.BK_TRANSMIT_ERROR, "gone")
    assert answer_of(LedgerFenced(), OWN).error == "LedgerFenced"


def test_a_bulk_says_what_its_first_record_says_of_ownership() -> None:
    done = Answer(StatusCode.SUCCESS, dlsn=DLSN(1, 0, 0))
    late = Answer(StatusCode.TOO_LARGE_RECORD, "large")
    found = Answer(StatusCode.FOUND, "no", "1;4;other:4181")
    assert bulk_answer((done, late)) == Answer(StatusCode.SUCCESS, each=(done, late))
    assert bulk_answer((late, done)) == Answer(StatusCode.SUCCESS, each=(late, done))
    assert bulk_answer((done, found)).code is StatusCode.SUCCESS
    assert bulk_answer((found, found)) == found
    assert bulk_answer(()) == Answer(StatusCode.SUCCESS)


def test_what_limits_count() -> None:
    asked = [Write(b"abc"), Write(b"abcd", 2), WriteBulk((b"a", b"bc")), Truncate(DLSN(1, 0, 0))]
    counted = [(each.records, each.size_bytes) for each in (*asked, Heartbeat())]
    assert counted == [(1, 3), (2, 4), (2, 3), (0, 0), (0, 0)]
