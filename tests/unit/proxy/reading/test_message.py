"""Messages against the protobuf library and a dumb oracle; rings against a plain list."""

from collections import deque
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.core.log.entries import EntryRecords
from tailrace.core.log.resume import BEGINNING, Place
from tailrace.core.log.segments import SegmentList
from tailrace.core.metadata.segment_metadata import SegmentMetadata
from tailrace.protocol.distributedlog.dlsn import DLSN
from tailrace.protocol.distributedlog.record import RecordColumns
from tailrace.protocol.ids import LedgerId
from tailrace.protocol.proxy.read_proxy_pb2 import ReadResponse
from tailrace.proxy.owner.codes import StatusCode
from tailrace.proxy.reading.message import (
    AT_TAIL_RESPONSE,
    MESSAGE_BYTES_MAX,
    Message,
    Part,
    part_of,
    take_message,
)
from tailrace.proxy.reading.ring import Ring, RingBudget
from tests.unit.proxy.reading.world import Got, got_of

SEGMENTS = SegmentList.of(
    [
        SegmentMetadata(
            lssn=1, ledger_id=LedgerId(7), first_txid=0, in_progress=False, start_sequence_id=100,
            record_count=10**6, last_entry_id=10**6, last_slot=0,
        ),
        SegmentMetadata(lssn=2, ledger_id=LedgerId(8), first_txid=0),
    ]
)  # fmt: skip

sizes = st.one_of(st.integers(0, 40), st.sampled_from([900, 30_000, 65_400, 65_536, 70_000]))
shapes = st.lists(st.lists(sizes, min_size=1, max_size=12), min_size=1, max_size=6)
few = settings(max_examples=25, deadline=None)


def entries_of(shape: list[list[int]]) -> list[EntryRecords]:
    """Entries in two segments; txids rise by one or stay."""
    entries: list[EntryRecords] = []
    count = 0
    for number, each in enumerate(shape):
        lssn = 1 if number < len(shape) // 2 else 2
        positions = range(count + 1, count + 1 + len(each))
        columns = RecordColumns(
            [position << 16 for position in positions],
            [position // 2 for position in positions],
            [
                b"%d" % position + b"x" * size
                for position, size in zip(positions, each, strict=True)
            ],
            0,
        )
        count += len(each)
        size = sum(map(len, columns.payloads)) + 20 * len(each)
        ledger_id = LedgerId(lssn + 6)
        slots = range(len(each))
        entries.append(EntryRecords(lssn, number, slots, columns, size, False, ledger_id))
    return entries


def encoded(entries: list[EntryRecords], *, is_caught_up: bool = False) -> list[Message]:
    left, given_out, messages = deque(entries), BEGINNING, []
    while left:
        message = take_message(left, SEGMENTS, given_out, is_caught_up=is_caught_up)
        given_out = message.given
        messages.append(message)
    return messages


def records_of(entries: list[EntryRecords]) -> list[Got]:
    return [
        Got(dlsn, record.txid, bytes(record.payload))
        for entry in entries
        for dlsn, record in entry.records()
    ]


@few
@given(shapes)
def test_messages_hold_all_records_in_order_and_within_the_limit(shape: list[list[int]]) -> None:
    entries = entries_of(shape)
    messages = encoded(entries, is_caught_up=True)
    responses = [ReadResponse.FromString(each.data) for each in messages]
    assert [got for each in responses for got in got_of(each)] == records_of(entries)
    assert {each.header.code for each in responses} == {StatusCode.SUCCESS}
    assert [each.at_tail for each in responses] == [False] * (len(messages) - 1) + [True]
    given_out = BEGINNING
    for entry in entries:
        given_out = given_out.moved_by(entry)
    assert messages[-1].given == given_out
    for message, response in zip(messages, responses, strict=True):
        got = got_of(response)
        assert message.count == len(got)
        assert (message.first, message.last) == (got[0].dlsn, got[-1].dlsn)
        assert message.txids == (got[0].txid, got[-1].txid)
        assert len(message.data) <= MESSAGE_BYTES_MAX or message.count == 1
        assert {one.dlsn.lssn for one in got} == {message.ledger_id - 6}, "of one ledger"
    for one, two in pairwise(messages):
        assert one.last < one.end.dlsn <= two.first


def test_sequence_ids_are_given_where_they_are_known() -> None:
    for message in encoded(entries_of([[1, 1], [1, 1]])):
        for record in ReadResponse.FromString(message.data).records:
            position = int(record.payload.rstrip(b"x"))
            assert record.sequence_id == (
                99 + position if message.ledger_id == 7 else 100 + 10**6 + position - 1
            )
    (entry,) = entries_of([[1]])
    uncounted = entry._replace(columns=entry.columns._replace(metadata=[0]))
    (message,) = encoded([uncounted])
    assert not ReadResponse.FromString(message.data).records[0].HasField("sequence_id")


@few
@given(shapes, st.data())
def test_parts_are_those_of_a_dumb_oracle(shape: list[list[int]], data: st.DataObject) -> None:
    entries = entries_of(shape)
    everything = records_of(entries)
    dlsns = st.sampled_from([each.dlsn for each in everything])
    after = dlsns.map(DLSN.next_slot)
    from_dlsn = data.draw(st.one_of(st.none(), dlsns, after))
    part = Part(
        None if from_dlsn is None else Place(from_dlsn, LedgerId(from_dlsn.lssn + 6)),
        data.draw(st.one_of(st.none(), st.integers(-1, len(everything)))),
        data.draw(st.integers(0, 30)),
    )
    for message in encoded(entries, is_caught_up=True):
        whole = got_of(ReadResponse.FromString(message.data))
        wanted = [
            each
            for each in whole
            if (from_dlsn is None or each.dlsn >= from_dlsn)
            and (part.from_txid is None or each.txid >= part.from_txid)
        ]
        cut = wanted[: part.records_max or None]
        made, count = part_of(message, part)
        response = ReadResponse.FromString(made)
        assert (got_of(response), count) == (cut, len(cut))
        if cut:
            assert response.header.code == StatusCode.SUCCESS
            assert response.at_tail == (message.is_at_tail and cut[-1] == whole[-1])


def test_message_with_a_successor_is_not_at_the_tail() -> None:
    (message,) = encoded(entries_of([[5]]), is_caught_up=True)
    before = ReadResponse.FromString(message.data)
    message.get_successor()
    message.get_successor()
    after = ReadResponse.FromString(message.data)
    assert (before.at_tail, after.at_tail) == (True, False)
    assert before.records == after.records
    empty = ReadResponse.FromString(AT_TAIL_RESPONSE)
    assert (empty.header.code, empty.at_tail, len(empty.records)) == (StatusCode.SUCCESS, True, 0)


def test_end_of_a_completed_segment_is_the_next_one() -> None:
    entries = entries_of([[1], [1]])
    done = SEGMENTS.segments[0].__class__(
        lssn=1, ledger_id=LedgerId(7), first_txid=0, in_progress=False, last_entry_id=0, last_slot=0
    )  # fmt: skip
    rewritten = SegmentList.of([done, SEGMENTS.segments[1]])
    message = take_message(deque(entries), rewritten, BEGINNING, is_caught_up=False)
    assert message.end.dlsn == DLSN(2, 0, 0)


class RingOracle:
    """Everything that was appended, and a look through all of it."""

    def __init__(self) -> None:
        self.messages: list[Message] = []

    def first_not_less(self, at: DLSN) -> int:
        return sum(each.last < at for each in self.messages)


@few
@given(shapes, st.integers(0, 150_000), st.integers(0, 150_000))
def test_ring_finds_what_it_has_and_stays_within_its_limits(
    shape: list[list[int]], bytes_max: int, ring_bytes_max: int
) -> None:
    entries = entries_of(shape)
    budget = RingBudget(bytes_max, ring_bytes_max)
    rings = [Ring(Place(DLSN(1, 0, 0), LedgerId(7)), budget) for _ in range(2)]
    oracle = RingOracle()
    for message in encoded(entries):
        oracle.messages.append(message)
        for ring in rings:
            ring.append(message) if ring is rings[0] else ring.append(encoded(entries)[0])
            assert budget.used_bytes == sum(each.used_bytes for each in rings) <= bytes_max
            assert all(each.used_bytes <= ring_bytes_max for each in rings)
    ring = rings[0]
    assert ring.next_number == len(oracle.messages)
    assert ring.end == oracle.messages[-1].end
    for got in records_of(entries):
        at = Place(got.dlsn, LedgerId(got.dlsn.lssn + 6))
        number = ring.find(at)
        expected = oracle.first_not_less(got.dlsn)
        if number is None:
            assert got.dlsn < ring.start.dlsn
        else:
            assert (number, ring.get(number)) == (expected, oracle.messages[expected])
        elsewhere = ring.find(Place(got.dlsn, LedgerId(99)))
        is_beginning = got.dlsn.entry_id == got.dlsn.slot == 0
        assert elsewhere is None or is_beginning, "a position of another ledger"
        by_txid = ring.find_txid(got.txid)
        if by_txid is not None:
            assert by_txid == sum(each.txids[1] < got.txid for each in oracle.messages)
    for each in rings:
        each.clear()
    assert (budget.used_bytes, len(budget)) == (0, 0)
