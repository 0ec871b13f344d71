"""BookKeeper's frames and entries, DistributedLog's records."""

import struct
from collections.abc import Iterator
from typing import Any

from tailrace.core.errors import CorruptData
from tailrace.core.log.entries import visible_records
from tailrace.core.log.owner_records import (
    SegmentIndex,
    join_index,
    join_snapshot,
    pack_index,
    pack_snapshot,
    read_part,
)
from tailrace.core.metadata.segment_metadata import SegmentMetadata
from tailrace.protocol.bookkeeper import codec, fast_codec, protobuf_codec, v2_answers, v2_requests
from tailrace.protocol.bookkeeper import messages as bk
from tailrace.protocol.bookkeeper.availability import decode_availability, encode_availability
from tailrace.protocol.bookkeeper.digest import Digest, DigestType
from tailrace.protocol.bookkeeper.entry import (
    HEADER_SIZE,
    Entry,
    pack_entry,
    pack_lac,
    read_entry,
    read_ids,
    read_lac,
)
from tailrace.protocol.distributedlog.dlsn import DLSN
from tailrace.protocol.distributedlog.envelope import (
    EnvelopeCodec,
    pack_bare,
    pack_envelope,
    unpack_columns,
    unpack_envelope,
)
from tailrace.protocol.distributedlog.record import (
    POSITION_MAX,
    RECORD_SET,
    LogRecord,
    read_records,
)
from tailrace.protocol.distributedlog.record_set import (
    count_records,
    expand,
    pack_record_set,
    record_set,
    unpack_record_set,
)
from tailrace.protocol.errors import BadValue, DecodeError, ProtocolError
from tailrace.protocol.ids import LedgerId
from tests.fuzz.judge import plain
from tests.fuzz.target import Target
from tests.golden import frames, vectors

_KEY = bytes(range(20))


# ---- requests, as a bookie takes them: v2 or v3 by the first byte


def _request(data: bytes) -> tuple[Any, Any]:
    frame = memoryview(data)
    if v2_requests.is_v2(frame):
        return v2_requests.decode_request(frame)
    found = codec.decode_request(frame)
    _compare_fast(fast_codec.read_request(frame), protobuf_codec.read_request, frame)
    return found


def _compare_fast(by_hand: Any, read: Any, frame: memoryview) -> None:
    if by_hand is None:
        return
    try:
        by_library = read(frame)
    except ProtocolError as error:
        raise AssertionError(f"only the codec by hand reads it: {error!r}") from error
    assert _whole(by_hand) == _whole(by_library), f"{by_hand} by hand, {by_library}"


def _whole(value: tuple[Any, Any]) -> Any:
    """Return a request or an answer as it compares: the parts of a body joined."""
    origin, message = value
    if isinstance(message, bk.AddRequest):
        message = message._replace(body=(b"".join(message.body),))
    return type(message).__name__, plain(origin), plain(message)


def _joined(parts: list[Any]) -> bytes:
    return b"".join(parts)[4:]


def _request_bytes(value: tuple[Any, Any]) -> bytes | None:
    origin, request = value
    if isinstance(request, bk.UnknownRequest):
        return None
    if isinstance(origin, v2_requests.Origin):
        return _joined(v2_requests.encode_request(request, origin.request_id))
    return _joined(codec.encode_request(origin, request))


def _request_seeds() -> Iterator[bytes]:
    yield from (each.data for each in frames("wire-v3.txt") if each.sender == "client")
    ledger = LedgerId(5)
    requests: tuple[bk.Request, ...] = (
        bk.AddRequest(ledger, 3, _KEY, (b"body",), recovery=True, write_flags=1, priority=1),
        bk.ReadRequest(ledger, 3, fence=True, master_key=_KEY),
        bk.ReadRequest(ledger, 3, previous_lac=7, timeout_ms=100, piggyback=True),
        bk.AuthRequest("plugin", b"token"),
        bk.ReadLacRequest(ledger),
        bk.WriteLacRequest(ledger, 3, _KEY, b"packet"),
        bk.ForceLedgerRequest(ledger),
        bk.BookieInfoRequest(3),
        bk.ListEntriesRequest(ledger),
        bk.StartTlsRequest(),
    )
    for request in requests:
        yield _joined(codec.encode_request(9, request))
    for old in (requests[0], requests[1], requests[3], bk.BatchReadRequest(ledger, 1, 5, 1000)):
        yield _joined(v2_requests.encode_request(old, 4))


# ---- answers, as a client takes them: a byte chooses the protocol


def _answer(data: bytes) -> tuple[Any, Any]:
    frame = memoryview(data)[1:]
    if data and data[0] & 1:
        return v2_answers.decode_response(frame)
    found = codec.decode_response(frame)
    _compare_fast(fast_codec.read_response(frame), protobuf_codec.read_response, frame)
    if isinstance(found[1], bk.ListEntriesResponse) and found[1].availability is not None:
        decode_availability(found[1].availability)
    return found


def _answer_bytes(value: tuple[Any, Any]) -> bytes | None:
    origin, answer = value
    if isinstance(origin, v2_requests.Origin):
        return b"\1" + _joined(v2_answers.encode_response(origin, answer))
    return b"\0" + _joined(codec.encode_response(origin, answer))


def _answer_seeds() -> Iterator[bytes]:
    for each in frames("wire-v3.txt"):
        if each.sender == "bookie":
            yield bytes((each.is_v2,)) + each.data
    entries = bk.BatchReadResponse(bk.StatusCode.EOK, LedgerId(1), 2, (b"e" * 40, b"f" * 50))
    origin = v2_requests.Origin(v2_requests.Opcode.BATCH_READ_ENTRY, LedgerId(1), 2, 3)
    yield b"\1" + _joined(v2_answers.encode_response(origin, entries))


# ---- entries: a byte for digest and repair


def _entry(data: bytes) -> tuple[DigestType, Entry]:
    kind = list(DigestType)[(data[0] if data else 0) % 4]
    digest = Digest(kind, b"pw")
    body = bytearray(data[1:])
    start = HEADER_SIZE + digest.size
    if data and not data[0] & 0x80 and len(body) >= start:
        body[HEADER_SIZE:start] = digest.compute((body[:HEADER_SIZE], body[start:]))
    owner = read_ids(body)[0]
    return kind, read_entry(body, owner, None, digest)


def _entry_bytes(value: tuple[DigestType, Entry]) -> bytes:
    kind, entry = value
    packed = pack_entry(*entry[:4], (entry.payload,), Digest(kind, b"pw"))
    return bytes((list(DigestType).index(kind),)) + b"".join(packed)


def _entry_seeds() -> Iterator[bytes]:
    for number, kind in enumerate(DigestType):
        parts = pack_entry(LedgerId(5), 1, 0, 10, (b"payload",), Digest(kind, b"pw"))
        yield bytes((number,)) + b"".join(parts)
        yield bytes((number | 0x80,)) + b"".join(parts)


def _lac(data: bytes) -> tuple[DigestType, int]:
    kind = list(DigestType)[(data[0] if data else 0) % 4]
    return kind, read_lac(data[1:], LedgerId(5), Digest(kind, b"pw"))


def _lac_bytes(value: tuple[DigestType, int]) -> bytes:
    kind, lac = value
    packet = pack_lac(LedgerId(5), lac, Digest(kind, b"pw"))
    return bytes((list(DigestType).index(kind),)) + packet


def _availability(data: bytes) -> Any:
    groups = decode_availability(data)
    for group in groups:
        assert group.entry_count > 0
        assert group.contains(group.first)
        assert group.contains(group.last + group.run_length - 1)
    return groups


# ---- DistributedLog: a byte says whether the entry has an envelope


def _records(data: bytes) -> list[tuple[int, LogRecord]]:
    is_enveloped = not (data and data[0] & 1)
    payload = memoryview(data)[1:]
    slots = unpack_envelope(payload, is_enveloped)
    unpack_columns(payload, is_enveloped)
    if not is_enveloped:
        read_records(payload)
    return slots


def _records_bytes(slots: list[tuple[int, LogRecord]]) -> bytes | None:
    records = [record for _, record in slots]
    if not records or any(record.position > POSITION_MAX for record in records):
        return None
    return b"\0" + b"".join(pack_envelope(records))


def _visible(data: bytes) -> Any:
    version = 5 if not (data and data[0] & 1) else 3
    segment = SegmentMetadata(lssn=1, ledger_id=LedgerId(1), first_txid=0, version=version)
    entry = Entry(LedgerId(1), 0, -1, 0, memoryview(data)[1:])
    found = visible_records(segment, entry)
    whole = visible_records(segment, entry, expands_sets=False)
    if whole.slots:
        assert whole.positions >= 0
        assert whole.last_position >= 0
    return list(found.records())


def _records_seeds() -> Iterator[bytes]:
    yield from (b"\0" + each.data for each in vectors("dl.txt") if each.section.startswith("A2"))
    records = [
        LogRecord(7, b"hello", 0, 1),
        LogRecord(8, b"control", 1, 1),
        record_set(9, [b"a", b"bb", b""], 2),
        record_set(9, [b"a" * 50] * 3, 5, EnvelopeCodec.LZ4),
    ]
    for some in ([records[0]], records, [LogRecord(9, b"endOfStream", 2, 3)]):
        for kind in EnvelopeCodec:
            yield b"\0" + b"".join(pack_envelope(some, kind))
        yield b"\1" + b"".join(pack_bare(some))


def _set(data: bytes) -> list[memoryview]:
    values = unpack_record_set(data)
    record = LogRecord(1, data, RECORD_SET, 1)
    assert len(expand(0, record)) == count_records(record) == len(values)
    return values


def _set_seeds() -> Iterator[bytes]:
    for kind in EnvelopeCodec:
        for values in ([], [b""], [b"a", b"bb" * 40, b""]):
            yield pack_record_set(values, kind)
    yield bytes.fromhex("0000100100000001009a000400000005401b000000")  # claims 10 MB


def _dlsn(data: bytes) -> DLSN:
    if data[:1] == b"t":
        return DLSN.deserialize(data[1:].decode("latin-1"))
    return DLSN.from_bytes(data)


def _owner_record(data: bytes) -> Any:
    part = read_part(data)
    if part is None:
        return None
    if part.magic == b"TRS1":
        return join_snapshot([part])
    return join_index([part])


def _owner_record_bytes(value: Any) -> bytes | None:
    if not value:
        return None
    packed = pack_index(value) if isinstance(value, SegmentIndex) else pack_snapshot(value)
    return packed[0] if packed else None


TARGETS = (
    Target(
        name="bookie-request",
        decode=_request,
        errors=(ProtocolError,),
        seeds=_request_seeds,
        encode=_request_bytes,
    ),
    Target(
        name="bookie-answer",
        decode=_answer,
        errors=(ProtocolError,),
        seeds=_answer_seeds,
        encode=_answer_bytes,
    ),
    Target(
        name="entry",
        decode=_entry,
        errors=(DecodeError,),
        seeds=_entry_seeds,
        encode=_entry_bytes,
    ),
    Target(
        name="lac-packet",
        decode=_lac,
        errors=(DecodeError,),
        seeds=lambda: (_lac_bytes((kind, 7)) for kind in DigestType),
        encode=_lac_bytes,
    ),
    Target(
        name="availability",
        decode=_availability,
        errors=(DecodeError,),
        seeds=lambda: [
            *(encode_availability(ids) for ids in ((), (0, 1, 2), (0, 5, 6, 90))),
            b"\0\0\0\0\0\0\0\1".ljust(64, b"\0") + struct.pack(">qqii", 0, 7, 3, 4),
        ],
    ),
    Target(
        name="log-records",
        decode=_records,
        errors=(DecodeError,),
        seeds=_records_seeds,
        encode=_records_bytes,
        memory_per_byte=600,
    ),
    Target(
        name="log-entry",
        decode=_visible,
        errors=(CorruptData,),
        seeds=_records_seeds,
        memory_per_byte=600,
    ),
    Target(
        name="record-set",
        decode=_set,
        errors=(DecodeError,),
        seeds=_set_seeds,
        encode=pack_record_set,
        memory_per_byte=600,
    ),
    Target(
        name="dlsn",
        decode=_dlsn,
        errors=(BadValue, DecodeError),
        seeds=lambda: [
            DLSN(5, 123, 7).to_bytes(0),
            DLSN(5, 123, 7).to_bytes(),
            b"t" + DLSN(1, 0, -1).serialize().encode(),
        ],
        encode=lambda dlsn: dlsn.to_bytes(),
    ),
    Target(
        name="owner-record",
        decode=_owner_record,
        errors=(DecodeError,),
        seeds=lambda: [
            *pack_snapshot(b"snapshot"),
            *pack_index(SegmentIndex(b"end", b"index")),
            b"control",
        ],
        encode=_owner_record_bytes,
    ),
)
