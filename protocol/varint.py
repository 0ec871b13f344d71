"""Bounded variable-length integers as Kafka and protobuf write them: 7 bits a byte, low first.

Every reader refuses a number of more bytes than its type can need, so hostile bytes cost at most
ten steps. A reader takes (buffer, place) and returns (value, place after it).
"""

from tailrace.protocol.errors import BadLength, BufferUnderflow
from tailrace.protocol.ids import Buffer

_MASK32 = (1 << 32) - 1


def read_unsigned32(buf: Buffer, at: int = 0) -> tuple[int, int]:
    """Read an unsigned number of at most 5 bytes. Errors: BufferUnderflow, BadLength."""
    value, at = _read(buf, at, 5)
    if value > _MASK32:
        raise BadLength(f"varint {value} does not fit 32 bits")
    return value, at


def read_varint(buf: Buffer, at: int = 0) -> tuple[int, int]:
    """Read Kafka's zigzag varint (int32). Errors: BufferUnderflow, BadLength."""
    try:
        value = buf[at]
        if value < 0x80:  # nearly all numbers in a record are one byte long, or two
            return (value >> 1) ^ -(value & 1), at + 1
        more = buf[at + 1]
    except IndexError:
        raise BufferUnderflow("the bytes end inside a varint") from None
    if more < 0x80:
        return ((value & 0x7F | more << 7) >> 1) ^ -(value & 1), at + 2
    value, at = read_unsigned32(buf, at)
    return (value >> 1) ^ -(value & 1), at


def _read(buf: Buffer, at: int, bytes_max: int) -> tuple[int, int]:
    value = 0
    try:
        for shift in range(0, 7 * bytes_max, 7):
            byte = buf[at]
            at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value, at
    except IndexError:
        raise BufferUnderflow("the bytes end inside a varint") from None
    raise BadLength(f"a varint of more than {bytes_max} bytes")


def write_unsigned(value: int) -> bytes:
    """Return the shortest form of a number >= 0."""
    if 0 <= value < 0x80:
        return _ONE_BYTE[value]
    assert value >= 0, value
    if value < 0x4000:
        return bytes((value & 0x7F | 0x80, value >> 7))
    if value < 0x200000:
        return bytes((value & 0x7F | 0x80, value >> 7 & 0x7F | 0x80, value >> 14))
    out = bytearray()
    while value >= 0x80:
        out.append((value & 0x7F) | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def write_varint(value: int) -> bytes:
    """Return the zigzag form of a signed number (Kafka's varint and varlong alike)."""
    return write_unsigned((value << 1) if value >= 0 else ((-value << 1) - 1))


_ONE_BYTE = [bytes([value]) for value in range(0x80)]
