"""What the hand-tuned codecs share: they know the plain shape only and decline everything else.

Plain is what clients send all day: no tagged fields, every byte in its place. Whatever else they
meet they decline, and the construct decides: it reads the unusual and names the error. So one place
refuses bytes, nothing here has to explain anything, and a test can hold both equal on all bytes.
What it saves: protocol/DESIGN.md, "Hot messages".

Bounds: a read beyond the end fails in struct or in indexing, or at the next read, because all
messages end with a fixed field or a tag byte; `count` bounds what is made per array.
"""

from struct import Struct
from struct import error as struct_error
from typing import Final

from tailrace.protocol.kafka.primitives import NULL, STRING_BYTES_MAX, pack_uvarint

I16: Final = Struct(">h")
I32: Final = Struct(">i")


class UnusualError(Exception):
    """Not the plain shape. Never leaves the hand-tuned codecs."""


DECLINED: Final = (UnusualError, struct_error, IndexError, UnicodeDecodeError)
"""What makes a hand-tuned codec return None."""


def text(body: memoryview, at: int) -> tuple[str, int]:
    """Read a string with an int16 length; return it and where it ends."""
    start = at + 2
    (length,) = I16.unpack_from(body, at)
    if length < 0:
        raise UnusualError
    end = start + length
    return str(body[start:end], "utf-8"), end


def nullable_text(body: memoryview, at: int) -> tuple[str | None, int]:
    """Read a string with an int16 length, -1 for null; return it and where it ends."""
    if I16.unpack_from(body, at)[0] == NULL:
        return None, at + 2
    return text(body, at)


def count(body: memoryview, at: int) -> tuple[int, int]:
    """Read an int32 count that the rest of the bytes can hold."""
    (number,) = I32.unpack_from(body, at)
    at += 4
    if not 0 <= number <= len(body) - at:
        raise UnusualError
    return number, at


def compact_length(body: memoryview, at: int) -> tuple[int, int]:
    """Read a uvarint of at most 4 bytes that is a length + 1; null is declined."""
    number = body[at]
    at += 1
    if number >= 0x80:
        number &= 0x7F
        for shift in (7, 14, 21):
            byte = body[at]
            at += 1
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
        else:
            raise UnusualError
    if number == 0:
        raise UnusualError
    return number - 1, at


def compact_text(body: memoryview, at: int) -> tuple[str, int]:
    """Read a string with a compact length; return it and where it ends."""
    number = body[at]
    if 0 < number < 0x80:  # the usual case, without another call
        end = at + number
        return str(body[at + 1 : end], "utf-8"), end
    length, at = compact_length(body, at)
    if length > STRING_BYTES_MAX:
        raise UnusualError
    end = at + length
    return str(body[at:end], "utf-8"), end


def compact_count(body: memoryview, at: int) -> tuple[int, int]:
    """Read a compact count that the rest of the bytes can hold."""
    number = body[at]
    if number == 2:  # one element, without another call
        return 1, at + 1
    number, at = compact_length(body, at)
    if number > len(body) - at:
        raise UnusualError
    return number, at


def no_tags(body: memoryview, at: int) -> int:
    """Step over an empty section of tagged fields."""
    if body[at]:
        raise UnusualError
    return at + 1


def put_text(out: bytearray, value: str) -> None:
    """Write a string with an int16 length."""
    encoded = value.encode()
    out += I16.pack(len(encoded))
    out += encoded


def put_compact_text(out: bytearray, value: str) -> None:
    """Write a string with a compact length."""
    encoded = value.encode()
    if len(encoded) > STRING_BYTES_MAX:
        raise UnusualError
    out += pack_uvarint(len(encoded) + 1)
    out += encoded
