"""Shared Hypothesis strategies: values of our formats, and hostile forms of their bytes."""

from collections.abc import Sequence

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from tailrace.protocol.bookkeeper import messages as bk
from tailrace.protocol.distributedlog.record import POSITION_MAX, LogRecord
from tailrace.protocol.ids import Buffer, LedgerId
from tailrace.protocol.records.record import Producer, Record, build_batch

int32s = st.integers(-(1 << 31), (1 << 31) - 1)
int64s = st.integers(-(1 << 63), (1 << 63) - 1)
naturals = st.integers(0, (1 << 63) - 1)
small_bytes = st.binary(max_size=40)
nullable_bytes = st.none() | small_bytes
timestamps = st.integers(0, 1 << 42)


def hostile(valid: SearchStrategy[bytes]) -> SearchStrategy[bytes]:
    """Yield bytes that a decoder must survive: valid ones whole, cut, changed, followed; random."""
    cut = st.builds(lambda data, at: data[: at % (len(data) + 1)], valid, st.integers(0, 1 << 16))
    followed = st.builds(lambda data, more: data + more, valid, st.binary(min_size=1, max_size=20))
    changed = st.builds(_change, valid, st.lists(_changes, min_size=1, max_size=4))
    return st.one_of(valid, cut, followed, changed, st.binary(max_size=200))


_changes = st.tuples(st.integers(0, 1 << 16), st.integers(0, 255))


def _change(data: bytes, changes: Sequence[tuple[int, int]]) -> bytes:
    changed = bytearray(data)
    for at, byte in changes:
        if changed:
            changed[at % len(changed)] = byte
    return bytes(changed)


def pieces(data: SearchStrategy[bytes]) -> SearchStrategy[tuple[Buffer, ...]]:
    """Yield bytes as a body comes: in one to three parts, of several buffer types."""
    kinds = st.sampled_from((bytes, bytearray, memoryview))
    part = st.builds(lambda kind, value: kind(value), kinds, data)
    return st.lists(part, min_size=1, max_size=3).map(tuple)


# ---- record batches

header_names = st.text(max_size=8)
record_headers = st.lists(st.tuples(header_names, nullable_bytes), max_size=3).map(tuple)


@st.composite
def record_lists(
    draw: st.DrawFn, *, min_size: int = 1, max_size: int = 8, gaps: bool = False
) -> list[Record]:
    """Yield records of one batch: offsets from 0, dense or with gaps as compaction leaves."""
    count = draw(st.integers(min_size, max_size))
    steps = st.integers(1, 1000) if gaps else st.just(1)
    offset = -1
    records: list[Record] = []
    for _ in range(count):
        offset += draw(steps)
        records.append(
            Record(
                offset=offset,
                timestamp=draw(timestamps),
                key=draw(nullable_bytes),
                value=draw(nullable_bytes),
                headers=draw(record_headers),
            )
        )
    return records


codecs = st.integers(0, 4)
producers = st.builds(Producer, st.integers(0, 1 << 40), st.integers(0, 1000), st.integers(0, 1000))


def record_batches(*, codec: SearchStrategy[int] = codecs) -> SearchStrategy[bytes]:
    """Yield whole batches of every codec."""
    return st.builds(
        lambda records, codec, producer: bytes(build_batch(records, codec, producer=producer)),
        record_lists(),
        codec,
        st.just(Producer()) | producers,
    )


# ---- BookKeeper

ledger_ids = st.integers(0, (1 << 62)).map(LedgerId)
entry_ids = st.integers(-1, 1 << 62)
master_keys = st.binary(min_size=20, max_size=20)
priorities = st.sampled_from((0, 0, bk.HIGH_PRIORITY))
txn_ids = st.integers(0, (1 << 64) - 1)

add_requests = st.builds(
    bk.AddRequest,
    ledger_ids,
    entry_ids,
    master_keys,
    pieces(small_bytes),
    recovery=st.booleans(),
    write_flags=st.integers(0, 1),
    priority=priorities,
)


@st.composite
def _read_requests(draw: st.DrawFn) -> bk.ReadRequest:
    flag = draw(st.sampled_from(("", "fence", "piggyback")))
    return bk.ReadRequest(
        draw(ledger_ids),
        draw(entry_ids),
        fence=flag == "fence",
        master_key=draw(st.just(b"") | master_keys),
        previous_lac=draw(st.none() | entry_ids),
        timeout_ms=draw(st.none() | st.integers(0, 1 << 40)),
        piggyback=flag == "piggyback",
        priority=draw(priorities),
    )


read_requests = _read_requests()
bookkeeper_requests: SearchStrategy[bk.Request] = st.one_of(
    add_requests,
    read_requests,
    st.builds(bk.WriteLacRequest, ledger_ids, entry_ids, master_keys, small_bytes, priorities),
    st.builds(bk.ReadLacRequest, ledger_ids, priorities),
    st.builds(bk.ForceLedgerRequest, ledger_ids, priorities),
    st.builds(bk.BookieInfoRequest, st.none() | st.integers(0, 3), priorities),
    st.builds(bk.ListEntriesRequest, ledger_ids, priorities),
    st.builds(bk.AuthRequest, st.text(max_size=10), small_bytes, priorities),
    st.builds(bk.StartTlsRequest, priorities),
    st.builds(
        bk.UnknownRequest,
        st.integers(13, 1000),
        st.just(bk.StatusCode.EBADREQ),
        priorities,
    ),
)

statuses = st.sampled_from([status for status in bk.StatusCode if status >= 0])
add_responses = st.builds(bk.AddResponse, statuses, ledger_ids, entry_ids)
read_responses = st.builds(
    bk.ReadResponse,
    statuses,
    ledger_ids,
    entry_ids,
    nullable_bytes,
    st.none() | entry_ids,
    st.none() | timestamps,
)
bookkeeper_responses: SearchStrategy[bk.Response] = st.one_of(
    add_responses,
    read_responses,
    st.builds(bk.WriteLacResponse, statuses, ledger_ids),
    st.builds(bk.ReadLacResponse, statuses, ledger_ids, nullable_bytes, nullable_bytes),
    st.builds(bk.ForceLedgerResponse, statuses, ledger_ids),
    st.builds(bk.BookieInfoResponse, statuses, st.none() | naturals, st.none() | naturals),
    st.builds(bk.ListEntriesResponse, statuses, ledger_ids, nullable_bytes),
    st.builds(bk.AuthResponse, statuses, st.text(max_size=10), small_bytes),
    st.builds(bk.StartTlsResponse, statuses),
    st.builds(
        bk.ErrorResponse,
        statuses.filter(lambda status: status != bk.StatusCode.EOK),
        st.integers(1, 20),
    ),
)


# ---- DistributedLog

log_records = st.builds(
    LogRecord,
    naturals,
    small_bytes,
    flags=st.sampled_from((0, 1, 2)),
    position=st.integers(0, POSITION_MAX),
)
log_record_lists = st.lists(log_records, min_size=1, max_size=6)
