"""Places, ends and replacements, held to a dumb second implementation."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.core.autorecovery.fragments import (
    FragmentSpan,
    Replacement,
    fragments_of,
    with_replacements,
)
from tailrace.core.ledger.schedule import Schedule
from tailrace.core.metadata.ledger_metadata import Fragment, LedgerMetadata, LedgerState
from tailrace.protocol.ids import BookieId

BOOKIES = tuple(BookieId(f"b{i}") for i in range(8))
SIZES = st.integers(1, 4)


@st.composite
def spans(draw: st.DrawFn) -> FragmentSpan:
    size = draw(st.integers(1, 6))
    first = draw(st.integers(0, 30))
    count = draw(st.integers(0, 40))
    ensemble = tuple(draw(st.permutations(BOOKIES))[:size])
    return FragmentSpan(first, first + count - 1, ensemble, draw(st.integers(1, size)))


def stored_at(span: FragmentSpan, place: int) -> list[int]:
    """The oracle: ask the writer's schedule for each entry."""
    schedule = Schedule(span.ensemble, span.write_quorum, 1)
    entries = range(span.first_entry_id, span.last_entry_id + 1)
    return [e for e in entries if place in schedule.write_set(e)]


@given(spans())
def test_entries_lie_where_the_writer_put_them(span: FragmentSpan) -> None:
    for place in range(len(span.ensemble)):
        wanted = stored_at(span, place)
        found = span.stored_at(place)
        assert list(found) == wanted
        assert len(found) == len(wanted)
        assert found[1:-1] == wanted[1:-1]
        if wanted:
            assert (found[0], found[-1]) == (wanted[0], wanted[-1])
        for beyond in (len(wanted), -len(wanted) - 1):
            with pytest.raises(IndexError):
                found[beyond]


@given(spans(), st.data())
def test_entries_at_several_places_come_once_and_in_order(
    span: FragmentSpan, data: st.DataObject
) -> None:
    places = data.draw(st.lists(st.sampled_from(range(len(span.ensemble))), unique=True))
    wanted = sorted({e for place in places for e in stored_at(span, place)})
    assert list(span.entries_at(places)) == wanted
    for entry_id in wanted:
        assert span.places_of(entry_id) == Schedule(span.ensemble, span.write_quorum, 1).write_set(
            entry_id
        )


@st.composite
def ledgers(draw: st.DrawFn, sizes: st.SearchStrategy[int] = SIZES) -> LedgerMetadata:
    size = draw(sizes)
    firsts = [0, *sorted(draw(st.sets(st.integers(1, 30), max_size=3)))]
    state = draw(st.sampled_from(LedgerState))
    return LedgerMetadata(
        ensemble_size=size,
        write_quorum=draw(st.integers(1, size)),
        ack_quorum=1,
        fragments=tuple(
            Fragment(first, tuple(draw(st.permutations(BOOKIES))[:size])) for first in firsts
        ),
        state=state,
        last_entry_id=draw(st.integers(-1, 40)) if state is LedgerState.CLOSED else -1,
    )


@given(ledgers())
def test_fragments_end_where_the_next_begins_or_the_ledger_ends(ledger: LedgerMetadata) -> None:
    found = fragments_of(ledger)
    assert [(s.first_entry_id, s.ensemble) for s in found] == [*ledger.fragments]
    assert [s.is_open for s in found] == [False] * (len(found) - 1) + [not ledger.is_closed]
    end = ledger.last_entry_id if ledger.is_closed else found[-1].first_entry_id - 1
    entries = [e for s in found for e in range(s.first_entry_id, s.last_entry_id + 1)]
    assert entries == list(range(end + 1))
    for entry_id in entries:
        (span,) = [s for s in found if s.first_entry_id <= entry_id <= s.last_entry_id]
        assert span.ensemble == ledger.fragment_of(entry_id).ensemble
    assert all(s.entry_count >= 0 for s in found)


@given(ledgers(), st.data())
def test_replacements_stand_where_the_lost_stood_and_change_nothing_else(
    seen: LedgerMetadata, data: st.DataObject
) -> None:
    """Whatever the ledger is by then: that which was seen, or anything else of its size."""
    other = data.draw(ledgers(st.just(seen.ensemble_size)))
    current = data.draw(st.sampled_from([seen, other]))
    copied = data.draw(st.sampled_from(fragments_of(seen)))
    places = data.draw(st.sets(st.sampled_from(range(len(copied.ensemble))), min_size=1))
    spare = [b for b in BOOKIES if b not in copied.ensemble]
    moves = {p: Replacement(copied.ensemble[p], spare[i]) for i, p in enumerate(sorted(places))}
    if copied.is_open:
        with pytest.raises(ValueError, match="writer's"):
            with_replacements(current, copied, moves)
        return
    after = with_replacements(current, copied, moves)
    wanted = dumb_replacement(current, copied, moves)
    if wanted == current.fragments:
        assert after is None
    else:
        assert after == replace(current, fragments=wanted, ctoken=0)
        assert with_replacements(after, copied, moves) is None  # our own work is known again


def dumb_replacement(
    current: LedgerMetadata, copied: FragmentSpan, moves: dict[int, Replacement]
) -> tuple[Fragment, ...]:
    fragments = []
    spans = fragments_of(current)
    for fragment, span in zip(current.fragments, spans, strict=True):
        ensemble = list(fragment.ensemble)
        same_run = (span.first_entry_id, span.last_entry_id) == (
            copied.first_entry_id, copied.last_entry_id,
        )  # fmt: skip
        if same_run and not span.is_open:
            for place in range(len(ensemble)):
                move = moves.get(place)
                if move and ensemble[place] == move.before and move.after not in ensemble:
                    ensemble[place] = move.after
        fragments.append(Fragment(fragment.first_entry_id, tuple(ensemble)))
    return tuple(fragments)


def test_a_place_that_somebody_else_gave_away_is_his() -> None:
    ledger = LedgerMetadata(
        ensemble_size=2, write_quorum=2, ack_quorum=1, fragments=(Fragment(0, BOOKIES[:2]),),
        state=LedgerState.CLOSED, last_entry_id=9, ctoken=5,
    )  # fmt: skip
    (span,) = fragments_of(ledger)
    moves = {0: Replacement(BOOKIES[0], BOOKIES[3])}
    theirs = replace(ledger, fragments=(Fragment(0, (BOOKIES[4], BOOKIES[1])),))
    assert with_replacements(theirs, span, moves) is None
    elsewhere = replace(ledger, fragments=(Fragment(0, (BOOKIES[0], BOOKIES[3])),))
    assert with_replacements(elsewhere, span, moves) is None
    other_place = replace(ledger, fragments=(Fragment(0, (BOOKIES[0], BOOKIES[4])),))
    after = with_replacements(other_place, span, moves)
    assert after is not None
    assert after.fragments == (Fragment(0, (BOOKIES[3], BOOKIES[4])),)
    assert after.ctoken == 0
