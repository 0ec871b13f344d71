"""Bookmarks: who is back soon gets a reader, and few are kept."""

from tailrace.broker.partition.bookmarks import MARKS_MAX, Bookmark, Bookmarks
from tailrace.core.log.resume import Place
from tailrace.protocol.distributedlog.dlsn import DLSN
from tailrace.protocol.ids import LedgerId


def mark(entry: int, read_number: int = 0, batch_bytes: int = 0) -> Bookmark:
    return Bookmark(Place(DLSN(1, entry, 0), LedgerId(1)), read_number, 5, batch_bytes, 30)


def test_who_is_back_within_as_many_reads_as_readers_are_kept_is_back_soon() -> None:
    left = mark(0, read_number=10)
    assert left.is_recent(11, readers_max=3)
    assert left.is_recent(13, readers_max=3)
    assert not left.is_recent(14, readers_max=3)


def test_a_batch_is_too_large_if_its_size_is_known_and_still_holds() -> None:
    assert mark(0, batch_bytes=100).is_cut_off(99, 31, 5)
    assert not mark(0, batch_bytes=100).is_cut_off(100, 31, 5)
    assert not mark(0, batch_bytes=100).is_cut_off(99, 30, 5), "it may not be shown"
    assert not mark(0, batch_bytes=100).is_cut_off(99, 31, 6), "it may have been cleaned"
    assert not mark(0).is_cut_off(0, 31, 5)


def test_a_bookmark_is_taken_once() -> None:
    marks = Bookmarks()
    marks.leave(7, mark(3))
    assert marks.take(8) is marks.find(8) is None
    assert marks.find(7) == mark(3)
    assert marks.take(7) == mark(3)
    assert marks.take(7) is None


def test_the_oldest_bookmark_goes_when_there_are_too_many() -> None:
    marks = Bookmarks()
    for offset in range(MARKS_MAX):
        marks.leave(offset, mark(offset))
    marks.leave(0, mark(100))
    marks.leave(MARKS_MAX, mark(200))
    assert len(marks) == MARKS_MAX
    assert marks.take(1) is None
    assert marks.take(0) == mark(100)
    assert marks.take(MARKS_MAX) == mark(200)
