import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.core.errors import CorruptData
from tailrace.core.metadata.layout import LEDGER_ID_MAX, UnderreplicationPaths
from tailrace.core.metadata.underreplication import (
    CHECK_ALL_LEDGERS,
    LAYOUT_BYTES,
    Mark,
    check_underreplication_layout,
    decode_lock,
    decode_mark,
    decode_vote,
    encode_lock,
    encode_mark,
    encode_vote,
)
from tailrace.protocol.ids import BookieId, LedgerId
from tests.unit.core.metadata.golden_nodes import golden_nodes

PATHS = UnderreplicationPaths()


def test_real_marks() -> None:
    nodes = golden_nodes()
    marks = [path for path in nodes if path.startswith(PATHS.ledgers) and "/urL" in path]
    assert len(marks) > 20
    for path in marks:
        ledger_id = PATHS.marked_ledger(path.rpartition("/")[2])
        assert ledger_id is not None
        assert PATHS.mark(ledger_id) == path
        mark = decode_mark(nodes[path].data)
        assert mark.missing == ("127.0.0.1:3483",)
        ctime = re.search(rb"ctime: (\d+)", nodes[path].data)
        assert ctime is not None
        assert mark.ctime_ms == int(ctime[1])
        assert encode_mark(mark) == nodes[path].data


def test_real_auditor() -> None:
    nodes = golden_nodes()
    assert nodes[PATHS.layout].data == LAYOUT_BYTES
    check_underreplication_layout(LAYOUT_BYTES)
    vote = nodes[PATHS.vote_prefix + "0000000000"]
    assert decode_vote(vote.data) == "127.0.0.1:3481"
    assert encode_vote("127.0.0.1:3481") == vote.data == nodes[PATHS.election].data
    last = nodes[PATHS.check_all_ledgers].data
    at_ms = CHECK_ALL_LEDGERS.decode(last)
    assert at_ms is not None
    assert CHECK_ALL_LEDGERS.encode(at_ms) == last


@given(
    st.lists(st.text(min_size=1, max_size=40).map(BookieId), max_size=4).map(tuple),
    st.none() | st.integers(0, 2**63 - 1),
)
def test_a_mark_says_what_was_noted(missing: tuple[BookieId, ...], ctime: int | None) -> None:
    mark = Mark(missing, ctime)
    assert decode_mark(encode_mark(mark)) == mark


@given(st.integers(0, LEDGER_ID_MAX).map(LedgerId))
def test_every_ledger_has_its_own_mark_and_lock(ledger_id: LedgerId) -> None:
    *parents, name = PATHS.mark(ledger_id).removeprefix(PATHS.ledgers + "/").split("/")
    assert int("".join(parents), 16) == ledger_id
    assert [len(part) for part in parents] == [4, 4, 4, 4]
    assert PATHS.lock(ledger_id) == f"{PATHS.locks}/{name}"
    assert PATHS.marked_ledger(name) == ledger_id


@pytest.mark.parametrize("name", ["", "urL", "urLx", "L0000000001", "urL1", "urL-000000001"])
def test_other_names_are_no_marks(name: str) -> None:
    assert PATHS.marked_ledger(name) is None
    assert PATHS.marked_ledger(f"urL{LEDGER_ID_MAX + 1}") is None


@pytest.mark.parametrize("data", [b"replica", b"\xff\xfe", b'replica: "a"\nother: 1\n'])
def test_damaged_marks_are_named(data: bytes) -> None:
    with pytest.raises(CorruptData, match="not a UnderreplicatedLedgerFormat"):
        decode_mark(data)


def test_another_layout_is_refused() -> None:
    with pytest.raises(CorruptData, match=r"'FLAT' 1; only BASIC 1"):
        check_underreplication_layout(b'type: "FLAT"\nversion: 1\n')
    with pytest.raises(CorruptData, match="BASIC' 2"):
        check_underreplication_layout(b'type: "BASIC"\nversion: 2\n')
    with pytest.raises(CorruptData, match="not a LedgerRereplicationLayoutFormat"):
        check_underreplication_layout(b"BASIC")


def test_locks_and_times() -> None:
    assert encode_lock("h") == b'bookieId: "h"\n'
    assert decode_lock(encode_lock("h")) == "h"
    assert decode_lock(b"") == decode_vote(b"") == ""
    assert CHECK_ALL_LEDGERS.decode(CHECK_ALL_LEDGERS.encode(1)) == 1
    assert CHECK_ALL_LEDGERS.decode(b"") is None
    with pytest.raises(CorruptData, match="not the time of a check"):
        CHECK_ALL_LEDGERS.decode(b"\xff")
