"""When unfinished ledgers are looked at again."""

from tailrace.core.autorecovery.set_aside import SetAside
from tailrace.core.metadata.ledger_metadata import Fragment
from tailrace.protocol.ids import BookieId, LedgerId

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


def test_what_nobody_was_told_of_is_new_again() -> None:
    aside = SetAside(320, 0)
    assert aside.on_failure(ONE, "x") == (10, True)
    aside.on_untold(ONE)
    assert aside.on_failure(ONE, "x") == (20, True)
    assert aside.on_failure(ONE, "x") == (40, False)


def test_an_open_end_has_its_time_from_when_it_was_first_seen() -> None:
    aside = SetAside(320, 100)

    def left(at_ms: int, missing: str = "a", marked_ms: int = 1, first: int = 7) -> int:
        members = frozenset(map(BookieId, missing))
        last = LAST._replace(first_entry_id=first)
        return aside.on_open_end(ONE, last, marked_ms, members, at_ms)

    assert [left(1000), left(1060), left(1100), left(1101)] == [100, 40, 0, 0]
    assert left(1110, first=8) == 100  # its writer has replaced somebody
    assert left(1120, "ab", first=8) == 90  # one more is gone, and `a` still
    assert left(1130, "b", first=8) == 100  # `a` came back
    assert left(1140, "b", first=8, marked_ms=2) == 100  # all was well in between
    aside.on_whole_end(OTHER)
    assert left(1150, "b", first=8, marked_ms=2) == 90
    aside.on_whole_end(ONE)
    assert left(1160, "b", first=8, marked_ms=2) == 100
    aside.forget(ONE)
    assert left(1170, "b", first=8, marked_ms=2) == 100


def test_what_is_known_is_bounded_and_the_oldest_goes() -> None:
    aside = SetAside(320, 100, ledgers_max=2)
    for ledger in (ONE, OTHER, LedgerId(3)):
        aside.on_failure(ledger, "x")
    assert len(aside) == 2
    assert aside.on_failure(OTHER, "x") == (20, False)
    assert aside.on_failure(ONE, "x") == (10, True)
