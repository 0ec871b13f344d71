"""How far a segment was read: what is between two parts is never counted as read."""

from tailrace.compaction.views.latest_offsets import LatestOffsets
from tailrace.compaction.views.log_view import LogView, Span
from tailrace.compaction.views.walk import Wanted
from tailrace.protocol.ids import LedgerId
from tailrace.protocol.records.record import Record, build_batch

SPAN = Span(1, LedgerId(5), 0, 4, None)


def batch(base: int) -> bytes:
    data = bytes(
        build_batch([Record(offset=n, key=b"%d" % (base + n), value=b"v") for n in (0, 1)])
    )
    return base.to_bytes(8, "big") + data[8:]


def test_keys_of_a_later_part_count_nothing_of_what_lies_before() -> None:
    view = LogView(LatestOffsets(lambda _: True))
    view.counts(SPAN)
    view.take(SPAN, [batch(0)], (), Wanted(0, 0, 4), 2)
    assert (view.end, view.counts(SPAN).records, view.counts(SPAN).end) == (2, 2, 2)
    view.forget(SPAN.lssn)
    view.counts(SPAN)
    view.take(SPAN, [batch(2)], (), Wanted(SPAN.end, 2, 4), 4)
    assert (view.end, view.counts(SPAN).records, view.counts(SPAN).end) == (4, 0, 0)
    view.take(SPAN, [batch(0), batch(2)], (), Wanted(0, 4, 4), 4)
    assert (view.counts(SPAN).records, view.counts(SPAN).end) == (4, 4)
    assert view.latest.live(0) == 4
