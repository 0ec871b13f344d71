"""Requests and answers of BookKeeper's protocol v3 as frames.

    frame = u32 length of what follows | protobuf message

Adds and reads go by hand (`fast_codec`), the rest and everything unusual through the protobuf
library (`protobuf_codec`). Frames are written as parts for writelines, bodies are never joined;
a decoded body is a view of its frame. Source: reference BookKeeper 1.1, 1.2.
"""

from tailrace.protocol.bookkeeper import fast_codec, protobuf_codec
from tailrace.protocol.bookkeeper.entry import FRAME_BYTES_LIMIT
from tailrace.protocol.bookkeeper.messages import (
    AddRequest,
    AddResponse,
    ReadRequest,
    ReadResponse,
    Request,
    Response,
)
from tailrace.protocol.bookkeeper.v2_requests import is_v2
from tailrace.protocol.errors import BufferUnderflow, FrameTooLarge, UnsupportedVersion
from tailrace.protocol.ids import Buffer


def encode_request(txn_id: int, request: Request) -> list[Buffer]:
    """Return the parts of a frame. Errors: FrameTooLarge (above FRAME_BYTES_LIMIT)."""
    if type(request) is AddRequest:
        return _frame(*fast_codec.write_add(txn_id, request))
    if type(request) is ReadRequest:
        return _frame(fast_codec.write_read(txn_id, request))
    return _frame(protobuf_codec.write_request(txn_id, request))


def encode_response(txn_id: int, response: Response) -> list[Buffer]:
    """Return the parts of a frame. Errors: FrameTooLarge (above FRAME_BYTES_LIMIT)."""
    if type(response) is AddResponse:
        return _frame(fast_codec.write_add_response(txn_id, response))
    if type(response) is ReadResponse:
        return _frame(*fast_codec.write_read_response(txn_id, response))
    return _frame(protobuf_codec.write_response(txn_id, response))


def decode_request(frame: Buffer) -> tuple[int, Request]:
    """Return (transaction id, request) of a frame without its length; bodies are views of it.

    A request that cannot be served comes as UnknownRequest with the status to answer.
    Errors: UnsupportedVersion (a v2 frame: see `v2_requests`), DecodeError family: close the
    connection.
    """
    view = memoryview(frame)
    _check_version(view)
    return fast_codec.read_request(view) or protobuf_codec.read_request(view)


def decode_response(frame: Buffer) -> tuple[int, Response]:
    """Return (transaction id, answer) of a frame without its length; bodies are views of it.

    Errors: UnsupportedVersion, DecodeError family: close the connection.
    """
    view = memoryview(frame)
    _check_version(view)
    return fast_codec.read_response(view) or protobuf_codec.read_response(view)


def _check_version(view: memoryview) -> None:
    if not view:
        raise BufferUnderflow("an empty frame")
    if is_v2(view):
        raise UnsupportedVersion("protocol v2 where v3 is spoken")


def _frame(head: bytes, body: tuple[Buffer, ...] = (), tail: bytes = b"") -> list[Buffer]:
    size = len(head) + sum(map(len, body)) + len(tail)
    if size + 4 > FRAME_BYTES_LIMIT:
        raise FrameTooLarge(f"a frame of {size} bytes")
    parts: list[Buffer] = [size.to_bytes(4, "big") + head, *body]
    if tail:
        parts.append(tail)
    return parts
