"""Protocol v2: Java's own bytes, and what no bytes may do."""

from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.protocol.bookkeeper.entry import FRAME_BYTES_LIMIT
from tailrace.protocol.bookkeeper.messages import (
    HIGH_PRIORITY,
    AddRequest,
    AddResponse,
    AuthRequest,
    AuthResponse,
    BatchReadRequest,
    BatchReadResponse,
    ErrorResponse,
    OperationType,
    ReadLacRequest,
    ReadRequest,
    ReadResponse,
    Request,
    Response,
    StatusCode,
    UnknownRequest,
    operation_of,
)
from tailrace.protocol.bookkeeper.v2_answers import decode_response, encode_response
from tailrace.protocol.bookkeeper.v2_requests import (
    OPERATIONS,
    Opcode,
    Origin,
    decode_request,
    encode_request,
    is_v2,
)
from tailrace.protocol.errors import (
    BadValue,
    BufferUnderflow,
    FrameTooLarge,
    ProtocolError,
    UnsupportedVersion,
)
from tailrace.protocol.ids import LedgerId
from tests.golden import Frame, frames
from tests.strategies import (
    hostile,
    ledger_ids,
    master_keys,
    pieces,
    priorities,
    small_bytes,
    statuses,
)

GOLDEN = [frame for frame in frames("wire-v3.txt") if frame.is_v2]
entry_ids = st.integers(-1, 1 << 62)
request_ids = st.integers(-(1 << 63), (1 << 63) - 1)
codes = [status for status in StatusCode if status >= 0]

IDS: Final = bytes(16)
"""What every entry begins with; nothing shorter is one."""


@st.composite
def adds(draw: st.DrawFn) -> AddRequest:
    ledger_id, entry_id = draw(ledger_ids), draw(entry_ids)
    head = ledger_id.to_bytes(8, "big", signed=True) + entry_id.to_bytes(8, "big", signed=True)
    body = (head + draw(small_bytes), *draw(pieces(small_bytes)))
    key, recovery = draw(master_keys), draw(st.booleans())
    return AddRequest(ledger_id, entry_id, key, body, recovery, 0, draw(priorities))


@st.composite
def reads(draw: st.DrawFn) -> ReadRequest:
    fence = draw(st.booleans())
    key = draw(master_keys) if fence else b""
    priority = draw(priorities)
    return ReadRequest(draw(ledger_ids), draw(entry_ids), fence, key, priority=priority)


@st.composite
def batches(draw: st.DrawFn) -> BatchReadRequest:
    fence = draw(st.booleans())
    return BatchReadRequest(
        draw(ledger_ids),
        draw(entry_ids),
        draw(st.integers(-(1 << 31), (1 << 31) - 1)),
        draw(request_ids),
        fence,
        draw(master_keys) if fence else b"",
        draw(priorities),
    )


auths = st.builds(AuthRequest, st.text(max_size=10), small_bytes, priorities)
requests = adds() | reads() | batches() | auths


@st.composite
def answers(draw: st.DrawFn) -> tuple[Origin, Response]:
    opcode = draw(st.sampled_from(Opcode))
    if opcode is Opcode.AUTH:
        plugin, payload = draw(st.text(max_size=10)), draw(small_bytes)
        return Origin(opcode, LedgerId(0), 0), AuthResponse(StatusCode.EOK, plugin, payload)
    status, ledger_id, entry_id = draw(statuses), draw(ledger_ids), draw(entry_ids)
    origin = Origin(opcode, ledger_id, entry_id)
    if opcode is Opcode.ADD_ENTRY:
        return origin, AddResponse(status, ledger_id, entry_id)
    if opcode is Opcode.BATCH_READ_ENTRY:
        bodies = tuple(draw(st.lists(small_bytes.map(IDS.__add__), max_size=4)))
        origin = origin._replace(request_id=draw(request_ids))
        return origin, BatchReadResponse(status, ledger_id, entry_id, bodies)
    body = draw(small_bytes) if status is StatusCode.EOK else None
    return origin, ReadResponse(status, ledger_id, entry_id, body)


def joined(request: Request) -> Request:
    if isinstance(request, AddRequest):
        return request._replace(body=(b"".join(request.body),))
    return request


def request_frame(request: Request, request_id: int = 0) -> bytes:
    frame = b"".join(encode_request(request, request_id))
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    return frame[4:]


def response_frame(origin: Origin, response: Response) -> bytes:
    frame = b"".join(encode_response(origin, response))
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    return frame[4:]


# ---- bytes of Java's client and bookie


@pytest.mark.parametrize("frame", GOLDEN, ids=lambda frame: frame.meaning[:40])
def test_every_frame_of_java_comes_back_byte_for_byte(frame: Frame) -> None:
    assert is_v2(frame.data)
    if frame.sender == "client":
        origin, request = decode_request(frame.data)
        assert request_frame(request, origin.request_id) == frame.data
    else:
        assert response_frame(*decode_response(frame.data)) == frame.data


def test_the_fields_of_javas_requests() -> None:
    asked = [decode_request(frame.data)[1] for frame in GOLDEN if frame.sender == "client"]
    six = LedgerId(6)
    key = bytes.fromhex("2aa226ba095b6969a64871977693b14671710d76")
    add, _, read, batch, fence, fenced_read, recovery, _ = asked
    assert isinstance(add, AddRequest)
    assert (add.master_key, add.recovery, add.priority) == (key, False, 0)
    assert read == ReadRequest(six, 0)
    assert batch == BatchReadRequest(six, 0, 2, 1000)
    assert fence == ReadRequest(six, -1, True, key)
    assert fenced_read == ReadRequest(six, 1, True, key, priority=HIGH_PRIORITY)
    assert isinstance(recovery, AddRequest)
    assert (recovery.recovery, recovery.priority) == (True, HIGH_PRIORITY)


def test_the_entries_of_a_batch() -> None:
    (frame,) = [f for f in GOLDEN if f.sender == "bookie" and f.data[1] == Opcode.BATCH_READ_ENTRY]
    origin, answer = decode_response(frame.data)
    assert origin == Origin(Opcode.BATCH_READ_ENTRY, LedgerId(6), 0, 0x1C)
    assert isinstance(answer, BatchReadResponse)
    assert [bytes(body)[-5:] for body in answer.bodies] == [b"hello", b"Z\xe3two"]


# ---- whole, cut, changed, random


@given(requests, request_ids)
def test_requests_come_back(request: Request, request_id: int) -> None:
    origin, decoded = decode_request(request_frame(request, request_id))
    assert decoded == joined(request)
    if isinstance(request, BatchReadRequest):
        assert origin.request_id == request_id


@given(answers())
def test_answers_come_back(pair: tuple[Origin, Response]) -> None:
    assert decode_response(response_frame(*pair)) == pair


@given(requests, st.binary(max_size=40))
def test_bytes_behind_a_request_are_ignored(request: Request, behind: bytes) -> None:
    if isinstance(request, AddRequest | AuthRequest):
        return  # they reach to the end of the frame
    assert decode_request(request_frame(request) + behind)[1] == request


@settings(max_examples=300)
@given(hostile(st.builds(request_frame, requests)))
def test_hostile_requests_give_a_request_or_a_protocol_error(frame: bytes) -> None:
    try:
        origin, request = decode_request(frame)
    except ProtocolError:
        return
    assert operation_of(request) == OPERATIONS[origin.opcode]


@settings(max_examples=300)
@given(hostile(st.builds(lambda pair: response_frame(*pair), answers())))
def test_hostile_answers_give_an_answer_or_a_protocol_error(frame: bytes) -> None:
    try:
        _, response = decode_response(frame)
    except ProtocolError:
        return
    assert response.status in codes


@pytest.mark.parametrize("frame", GOLDEN, ids=lambda frame: frame.meaning[:40])
def test_no_cut_of_a_golden_frame_is_taken_for_the_whole(frame: Frame) -> None:
    decode = decode_request if frame.sender == "client" else decode_response
    whole = decode(frame.data)
    for length in range(len(frame.data)):
        try:
            assert decode(frame.data[:length]) != whole
        except BufferUnderflow:
            continue


def test_a_length_in_a_batch_that_lies_allocates_nothing() -> None:
    head = response_frame(
        Origin(Opcode.BATCH_READ_ENTRY, LedgerId(1), 0, 5),
        BatchReadResponse(StatusCode.EOK, LedgerId(1), 0),
    )
    with pytest.raises(BufferUnderflow):
        decode_response(head + b"\xff\xff\xff\xff" + b"entry")


@pytest.mark.parametrize("size", [0, 1, len(IDS) - 1])
def test_a_batch_has_no_more_entries_than_a_bookie_can_store(size: int) -> None:
    """A frame of zeros was a million entries, 260 MB, and a second of the loop."""
    origin = Origin(Opcode.BATCH_READ_ENTRY, LedgerId(1), 0, 5)
    bodies = (IDS, bytes(size))
    frame = response_frame(origin, BatchReadResponse(StatusCode.EOK, LedgerId(1), 0, bodies))
    with pytest.raises(BadValue):
        decode_response(frame)


# ---- views instead of copies, limits


@given(st.lists(small_bytes.map(IDS.__add__), min_size=1, max_size=4))
def test_entries_are_the_parts_that_were_given(parts: list[bytes]) -> None:
    origin = Origin(Opcode.BATCH_READ_ENTRY, LedgerId(1), 0)
    encoded = encode_response(
        origin, BatchReadResponse(StatusCode.EOK, LedgerId(1), 0, tuple(parts))
    )
    assert all(part is given for part, given in zip(encoded[2::2], parts, strict=True))


def test_a_decoded_body_is_a_view_of_its_frame() -> None:
    frame = bytearray(request_frame(AddRequest(LedgerId(0), 0, bytes(20), (bytes(16), b"before"))))
    _, request = decode_request(frame)
    assert isinstance(request, AddRequest)
    frame[-6:] = b"change"
    assert request.body == (bytes(16) + b"change",)


def test_the_largest_answer_passes_and_one_byte_more_does_not() -> None:
    origin = Origin(Opcode.READ_ENTRY, LedgerId(1), 0)
    room = FRAME_BYTES_LIMIT - 4 - 24
    encode_response(origin, ReadResponse(StatusCode.EOK, LedgerId(1), 0, bytes(room)))
    with pytest.raises(FrameTooLarge):
        encode_response(origin, ReadResponse(StatusCode.EOK, LedgerId(1), 0, bytes(room + 1)))


# ---- rules beside the layout


@pytest.mark.parametrize("opcode", [0, 4, 5, 6, 8, 255])
def test_opcodes_that_javas_bookie_does_not_take_end_the_connection(opcode: int) -> None:
    with pytest.raises(BadValue):
        decode_request(bytes((2, opcode, 0, 0)) + bytes(60))


@pytest.mark.parametrize("version", [0, 1])
def test_versions_before_2_end_the_connection(version: int) -> None:
    with pytest.raises(UnsupportedVersion):
        decode_request(bytes((version, 2, 0, 0)) + bytes(60))


def test_a_later_version_is_answered_with_ebadversion() -> None:
    origin, request = decode_request(b"\x03\x02\x00\x00" + bytes(7) + b"\x06" + bytes(8))
    assert request == UnknownRequest(OperationType.READ_ENTRY, StatusCode.EBADVERSION)
    answer = response_frame(origin, ErrorResponse(StatusCode.EBADVERSION, 1))
    assert answer[:16] == b"\x02\x02\x00\x00\x00\x00\x00\x67" + bytes(7) + b"\x06"


@pytest.mark.parametrize("status", codes, ids=lambda status: status.name)
def test_every_status_has_its_code(status: StatusCode) -> None:
    origin = Origin(Opcode.ADD_ENTRY, LedgerId(1), 2)
    answer = decode_response(response_frame(origin, ErrorResponse(status, OperationType.ADD_ENTRY)))
    assert answer == (origin, AddResponse(status, LedgerId(1), 2))


def test_a_code_that_nobody_knows_is_a_failure() -> None:
    frame = b"\x02\x01\x00\x00\x00\x00\x03\xe7" + bytes(16)
    assert decode_response(frame)[1].status is StatusCode.EIO


def test_an_auth_that_failed_has_no_words() -> None:
    origin = Origin(Opcode.AUTH, LedgerId(0), 0)
    assert encode_response(origin, ErrorResponse(StatusCode.EIO, OperationType.AUTH)) == []


def test_what_v2_has_no_words_for() -> None:
    with pytest.raises(UnsupportedVersion):
        encode_request(ReadLacRequest(LedgerId(1)))
    with pytest.raises(UnsupportedVersion):
        encode_request(ReadRequest(LedgerId(1), -1, previous_lac=3))
