"""When unfinished ledgers are looked at again."""

from core.autorecovery.set_aside import SetAside
from core.metadata.ledger_metadata import Fragment
from protocol.ids import BookieId, LedgerId

ONE, OTHER = LedgerId(1), LedgerId(2)
LAST = Fragment(7, (BookieId("a"),))


def test_pauses_double_up_to_the_whole_and_begin_anew_when_all_is_well() -> None:
    aside = SetAside(320, 0)
    pauses = [aside.on_failure(ONE, "x")[0] for _ in range(8)]
    assert pauses == [10, 20, 40, 80, 160, 320, 320, 320]
    assert aside.on_failure(OTHER, "x") == (10, True)
    aside.forget(ONE)
    aside.forget(ONE)
    assert aside.on_failure(ONE, "x") == (10, True)


def test_a_problem_is_new_once() -> None:
    aside = SetAside(320, 0)
    assert [aside.on_failure(ONE, p)[1] for p in ("x", "x", "y", "y", "x")] == [
        True, False, True, False, True,
    ]  # fmt: skip


def test_an_open_end_has_its_time_from_when_it_was_first_seen() -> None:
    aside = SetAside(320, 100)
    assert aside.on_open_end(ONE, LAST, 1000) == 100
    assert aside.on_open_end(ONE, LAST, 1060) == 40
    assert aside.on_open_end(OTHER, LAST, 1060) == 100
    assert aside.on_open_end(ONE, LAST, 1100) == 0
    assert aside.on_open_end(ONE, LAST, 5000) == 0
    assert aside.on_open_end(ONE, LAST._replace(first_entry_id=8), 5000) == 100
    aside.forget(OTHER)
    assert aside.on_open_end(OTHER, LAST, 5000) == 100


def test_what_is_known_is_bounded_and_the_oldest_goes() -> None:
    aside = SetAside(320, 100, ledgers_max=2)
    for ledger in (ONE, OTHER, LedgerId(3)):
        aside.on_failure(ledger, "x")
    assert len(aside) == 2
    assert aside.on_failure(OTHER, "x") == (20, False)
    assert aside.on_failure(ONE, "x") == (10, True)
