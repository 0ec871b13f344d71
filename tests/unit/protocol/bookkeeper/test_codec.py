import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.protocol.bookkeeper import fast_codec, protobuf_codec
from tailrace.protocol.bookkeeper.codec import (
    decode_request,
    decode_response,
    encode_request,
    encode_response,
)
from tailrace.protocol.bookkeeper.entry import FRAME_BYTES_LIMIT
from tailrace.protocol.bookkeeper.messages import (
    AddRequest,
    AddResponse,
    AuthResponse,
    ErrorResponse,
    OperationType,
    ReadRequest,
    ReadResponse,
    Request,
    Response,
    StartTlsResponse,
    StatusCode,
    UnknownRequest,
    operation_of,
)
from tailrace.protocol.bookkeeper.schema import MESSAGES
from tailrace.protocol.errors import (
    BadValue,
    BufferUnderflow,
    DecodeError,
    FrameTooLarge,
    ProtocolError,
    UnsupportedVersion,
)
from tailrace.protocol.ids import LedgerId
from tests.golden import Frame, frames
from tests.strategies import (
    add_requests,
    add_responses,
    bookkeeper_requests,
    bookkeeper_responses,
    hostile,
    read_requests,
    read_responses,
    small_bytes,
    txn_ids,
)

GOLDEN = [frame for frame in frames("wire-v3.txt") if not frame.is_v2]
GOLDEN_V2 = [frame for frame in frames("wire-v3.txt") if frame.is_v2 and frame.sender == "client"]


def joined(request: Request) -> Request:
    """Return a request as it comes out of a frame: with a body in one part."""
    if isinstance(request, AddRequest):
        return request._replace(body=(b"".join(request.body),))
    return request


def request_frame(txn_id: int, request: Request) -> bytes:
    frame = b"".join(encode_request(txn_id, request))
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    return frame[4:]


def response_frame(txn_id: int, response: Response) -> bytes:
    frame = b"".join(encode_response(txn_id, response))
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    return frame[4:]


# ---- bytes of Java's client and bookie


@pytest.mark.parametrize("frame", GOLDEN, ids=lambda frame: frame.section[:30])
def test_every_frame_of_java_comes_back_byte_for_byte(frame: Frame) -> None:
    if frame.sender == "client":
        assert request_frame(*decode_request(frame.data)) == frame.data
    else:
        assert response_frame(*decode_response(frame.data)) == frame.data


@pytest.mark.parametrize("frame", GOLDEN, ids=lambda frame: frame.section[:30])
def test_javas_adds_and_reads_go_by_hand(frame: Frame) -> None:
    view = memoryview(frame.data)
    if frame.sender == "client":
        _, request = decode_request(view)
        by_hand = fast_codec.read_request(view) is not None
        assert by_hand == isinstance(request, AddRequest | ReadRequest)
    else:
        _, response = decode_response(view)
        by_hand = fast_codec.read_response(view) is not None
        assert by_hand == isinstance(response, AddResponse | ReadResponse)


def test_the_fields_of_a_long_poll_and_its_answer() -> None:
    poll, _, answer = [frame for frame in GOLDEN if frame.section.startswith("long poll: ")][:3]
    assert decode_request(poll.data) == (
        8,
        ReadRequest(LedgerId(0), -1, previous_lac=0, timeout_ms=3000, piggyback=True),
    )
    txn_id, response = decode_response(answer.data)
    assert isinstance(response, ReadResponse)
    assert (txn_id, response.status, response.entry_id) == (8, StatusCode.EOK, 1)
    assert (response.max_lac, response.lac_update_timestamp) == (1, 1795250265209)


def test_the_fields_of_a_recovery_add() -> None:
    (frame,) = [frame for frame in GOLDEN if "RECOVERY_ADD" in frame.meaning]
    _, request = decode_request(frame.data)
    assert isinstance(request, AddRequest)
    assert (request.recovery, request.priority, request.write_flags) == (True, 100, 0)
    assert sum(map(len, request.body)) == 41


@pytest.mark.parametrize("frame", GOLDEN_V2, ids=lambda frame: frame.meaning[:40])
def test_protocol_v2_is_refused_by_name(frame: Frame) -> None:
    with pytest.raises(UnsupportedVersion):
        decode_request(frame.data)


def test_header_of_the_reference() -> None:
    header = MESSAGES["BKPacketHeader"](version=3, operation=2, txnId=1)
    assert header.SerializeToString().hex() == "080310021801"


# ---- by hand equals protobuf, both ways


@given(txn_ids, add_requests | read_requests)
def test_requests_by_hand_have_protobufs_bytes(
    txn_id: int, request: AddRequest | ReadRequest
) -> None:
    assert request_frame(txn_id, request) == protobuf_codec.write_request(txn_id, request)


@given(txn_ids, add_responses | read_responses)
def test_answers_by_hand_have_protobufs_bytes(
    txn_id: int, response: AddResponse | ReadResponse
) -> None:
    assert response_frame(txn_id, response) == protobuf_codec.write_response(txn_id, response)


@settings(max_examples=500)
@given(hostile(st.builds(request_frame, txn_ids, bookkeeper_requests)))
def test_a_request_read_by_hand_is_what_protobuf_reads(frame: bytes) -> None:
    by_hand = fast_codec.read_request(memoryview(frame))
    if by_hand is not None:
        assert by_hand == protobuf_codec.read_request(frame)


@settings(max_examples=500)
@given(hostile(st.builds(response_frame, txn_ids, bookkeeper_responses)))
def test_an_answer_read_by_hand_is_what_protobuf_reads(frame: bytes) -> None:
    by_hand = fast_codec.read_response(memoryview(frame))
    if by_hand is not None:
        assert by_hand == protobuf_codec.read_response(frame)


@given(st.lists(st.integers(0, 255), min_size=10, max_size=10), st.integers(0, 3))
def test_numbers_of_ten_bytes_mean_what_protobuf_says(digits: list[int], field: int) -> None:
    numbers = [b"\x01", b"\x00", b"\x00", b"\x00"]
    numbers[field] = bytes(digit | 0x80 for digit in digits[:9]) + bytes((digits[9] & 0x7F,))
    inner = b"\x08" + numbers[1] + b"\x10" + numbers[2] + b"\x28" + numbers[3]
    header = b"\x08\x03\x10\x01\x18" + numbers[0]
    frame = b"\x0a" + bytes((len(header),)) + header + b"\xa2\x06" + bytes((len(inner),)) + inner
    by_hand = fast_codec.read_request(memoryview(frame))
    if by_hand is not None:
        assert by_hand == protobuf_codec.read_request(frame)


@pytest.mark.parametrize("bits", range(7, 63, 7))
@pytest.mark.parametrize("beside", [-1, 0, 1])
def test_numbers_where_they_become_a_byte_longer(bits: int, beside: int) -> None:
    """Random ones hardly ever are: 128, 16,384, ... and those beside them."""
    number = (1 << bits) + beside
    add = AddRequest(LedgerId(number), number, b"key", (b"body",))
    frame = protobuf_codec.write_request(number, add)
    assert request_frame(number, add) == frame
    assert fast_codec.read_request(memoryview(frame)) == (number, joined(add))
    answer = AddResponse(StatusCode.EOK, LedgerId(number), number)
    frame = protobuf_codec.write_response(number, answer)
    assert response_frame(number, answer) == frame
    assert fast_codec.read_response(memoryview(frame)) == (number, answer)


# ---- whole, cut, changed, random


@given(txn_ids, bookkeeper_requests)
def test_requests_come_back(txn_id: int, request: Request) -> None:
    assert decode_request(request_frame(txn_id, request)) == (txn_id, joined(request))


@given(txn_ids, bookkeeper_responses)
def test_answers_come_back(txn_id: int, response: Response) -> None:
    assert decode_response(response_frame(txn_id, response)) == (txn_id, response)


@settings(max_examples=300)
@given(hostile(st.builds(request_frame, txn_ids, bookkeeper_requests)))
def test_hostile_requests_give_a_request_or_a_protocol_error(frame: bytes) -> None:
    try:
        txn_id, request = decode_request(frame)
    except ProtocolError:
        return
    assert txn_id >= 0
    assert isinstance(operation_of(request), int)


@settings(max_examples=300)
@given(hostile(st.builds(response_frame, txn_ids, bookkeeper_responses)))
def test_hostile_answers_give_an_answer_or_a_protocol_error(frame: bytes) -> None:
    try:
        _, response = decode_response(frame)
    except ProtocolError:
        return
    assert isinstance(response.status, StatusCode)


@pytest.mark.parametrize("frame", GOLDEN[:8], ids=lambda frame: frame.section[:30])
def test_no_cut_of_a_golden_frame_is_taken_for_the_whole(frame: Frame) -> None:
    decode = decode_request if frame.sender == "client" else decode_response
    whole = decode(frame.data)
    for length in range(len(frame.data)):
        try:
            assert decode(frame.data[:length]) != whole
        except DecodeError:
            continue


def test_an_empty_frame() -> None:
    with pytest.raises(BufferUnderflow):
        decode_request(b"")
    with pytest.raises(BufferUnderflow):
        decode_response(b"")


# ---- views instead of copies, limits


@given(st.lists(small_bytes, min_size=1, max_size=4))
def test_bodies_are_the_parts_that_were_given(parts: list[bytes]) -> None:
    request = AddRequest(LedgerId(1), 2, bytes(20), tuple(parts))
    encoded = encode_request(1, request)
    assert all(part is given for part, given in zip(encoded[1:], parts, strict=False))


def test_a_decoded_body_is_a_view_of_its_frame() -> None:
    frame = bytearray(request_frame(1, AddRequest(LedgerId(1), 2, bytes(20), (b"before",))))
    _, request = decode_request(frame)
    assert isinstance(request, AddRequest)
    frame[-6:] = b"change"
    assert request.body == (b"change",)


def test_the_largest_frame_passes_and_one_byte_more_does_not() -> None:
    around = len(request_frame(1, AddRequest(LedgerId(1), 2, bytes(20), (bytes(1 << 22),)))) - (
        1 << 22
    )
    room = FRAME_BYTES_LIMIT - 4 - around
    encode_request(1, AddRequest(LedgerId(1), 2, bytes(20), (bytes(room),)))
    with pytest.raises(FrameTooLarge):
        encode_request(1, AddRequest(LedgerId(1), 2, bytes(20), (bytes(room), b"x")))


# ---- rules beside the schema


def outer_request(version: int, operation: int, **fields: object) -> bytes:
    message = MESSAGES["Request"](**fields)
    message.header.version, message.header.operation, message.header.txnId = version, operation, 5
    data: bytes = message.SerializePartialToString()
    return data


def test_an_operation_that_nobody_knows_is_answered_and_not_an_error() -> None:
    assert decode_request(outer_request(3, 77)) == (5, UnknownRequest(77, StatusCode.EBADREQ))


def test_another_version_is_answered_with_ebadversion() -> None:
    frame = outer_request(2, 6, readLacRequest=MESSAGES["ReadLacRequest"](ledgerId=1))
    assert decode_request(frame) == (5, UnknownRequest(6, StatusCode.EBADVERSION))
    read = outer_request(1, 1, readRequest=MESSAGES["ReadRequest"](ledgerId=1, entryId=2))
    assert decode_request(read) == (5, UnknownRequest(1, StatusCode.EBADVERSION))


def test_an_operation_without_its_message_is_answered_with_ebadreq() -> None:
    assert decode_request(outer_request(3, OperationType.ADD_ENTRY))[1] == UnknownRequest(2)


def test_a_required_field_that_is_missing_is_a_decode_error() -> None:
    with pytest.raises(BadValue):
        decode_request(outer_request(3, 1, readRequest=MESSAGES["ReadRequest"](ledgerId=1)))
    with pytest.raises(BadValue):
        decode_request(MESSAGES["Request"]().SerializePartialToString() + b"\x0a\x02\x08\x03")


def test_unknown_fields_and_contexts_are_ignored() -> None:
    context = MESSAGES["ContextPair"](key="trace", value="1")
    read = MESSAGES["ReadRequest"](ledgerId=1, entryId=2)
    frame = outer_request(3, 1, readRequest=read, requestContext=[context, context])
    expected = (5, ReadRequest(LedgerId(1), 2))
    assert decode_request(frame) == expected
    assert decode_request(frame + b"\xc2\x3e\x03old") == expected  # field 1000, bytes


def outer_response(outer: int, operation: int, **fields: object) -> bytes:
    message = MESSAGES["Response"](status=outer, **fields)
    message.header.version, message.header.operation, message.header.txnId = 3, operation, 5
    data: bytes = message.SerializeToString()
    return data


@pytest.mark.parametrize(
    ("outer", "inner", "expected"),
    [
        (0, 0, StatusCode.EOK),
        (0, 504, StatusCode.EFENCED),
        (502, 0, StatusCode.EUA),
        (502, 504, StatusCode.EUA),
        (0, 999, StatusCode.EIO),
        (999, 0, StatusCode.EIO),
    ],
)
def test_outer_and_inner_status(outer: int, inner: int, expected: StatusCode) -> None:
    add = MESSAGES["AddResponse"](status=inner, ledgerId=1, entryId=2)
    assert decode_response(outer_response(outer, 2, addResponse=add)) == (
        5,
        AddResponse(expected, LedgerId(1), 2),
    )
    lac = MESSAGES["WriteLacResponse"](status=inner, ledgerId=1)
    assert decode_response(outer_response(outer, 6, writeLacResponse=lac))[1].status == expected


def test_an_answer_of_a_status_only() -> None:
    assert decode_response(outer_response(502, 2)) == (5, ErrorResponse(StatusCode.EUA, 2))
    assert decode_response(outer_response(404, 77)) == (5, ErrorResponse(StatusCode.EBADREQ, 77))
    with pytest.raises(BadValue):
        decode_response(outer_response(0, 2))


def test_answers_whose_message_has_no_status_take_the_outer_one() -> None:
    auth = MESSAGES["AuthMessage"](authPluginName="p", payload=b"x")
    assert decode_response(outer_response(502, 5, authResponse=auth))[1] == AuthResponse(
        StatusCode.EUA, "p", b"x"
    )
    tls = MESSAGES["StartTLSResponse"]()
    assert decode_response(outer_response(0, 9, startTLSResponse=tls))[1] == StartTlsResponse(
        StatusCode.EOK
    )


def test_a_plugin_name_that_is_not_utf8_is_a_decode_error() -> None:
    frame = outer_request(
        3, 5, authRequest=MESSAGES["AuthMessage"](authPluginName="p", payload=b"")
    )
    with pytest.raises(BadValue):
        decode_request(frame.replace(b"\x0a\x01p", b"\x0a\x01\xff"))


@pytest.mark.parametrize("status", [StatusCode.LOCAL_TIMEOUT, StatusCode.LOCAL_UNAVAILABLE])
def test_a_clients_own_words_never_travel(status: StatusCode) -> None:
    with pytest.raises(AssertionError):
        encode_response(1, ErrorResponse(status, 2))
    with pytest.raises(AssertionError):
        encode_response(1, AddResponse(status, LedgerId(1), 2))


@pytest.mark.parametrize("encode", [encode_request])
def test_fence_and_piggyback_exclude_each_other(encode: object) -> None:
    request = ReadRequest(LedgerId(1), 2, fence=True, piggyback=True)
    with pytest.raises(AssertionError):
        encode_request(1, request)
    with pytest.raises(AssertionError):
        protobuf_codec.write_request(1, request)
