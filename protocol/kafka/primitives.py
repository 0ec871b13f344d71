"""Kafka's primitive encodings as constructs: integers, strings, bytes, arrays and their bounds.

A codec here reads from a `Source` and writes to a `Sink`: streams as construct wants them, over
memory, that copy no record bytes. Every length is checked against the bytes that are left before
anything is made of it. `Kind` is what a message declares; it becomes a codec once a version is
known, because a flexible version ("compact") writes lengths as uvarints of length + 1.

Source: Kafka's KIP-482; org.apache.kafka.common.protocol.{Readable,Writable,types.Type};
reference/kafka.md 2.1.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from struct import Struct
from typing import Any, Final, NamedTuple

import construct

from tailrace.protocol.errors import BadLength, BadValue, BufferUnderflow, UnexpectedNull
from tailrace.protocol.ids import Buffer

NULL: Final = -1
STRING_BYTES_MAX: Final = 0x7FFF  # Kafka refuses longer strings, compact ones too
ELEMENTS_MAX: Final = 200_000  # elements and tagged fields of a message: each costs 1-4 us
NO_UUID: Final = bytes(16)


class Source:
    """A place in received bytes. `end` moves inwards while a tagged field is read."""

    __slots__ = ("at", "elements_left", "elements_max", "end", "view")

    def __init__(self, data: Buffer, elements_max: int = ELEMENTS_MAX) -> None:
        self.view = memoryview(data)
        self.at = 0
        self.end = len(self.view)
        self.elements_left = self.elements_max = elements_max

    def read(self, count: int) -> memoryview:
        """Read as construct's streams do: fewer bytes than asked for means the end."""
        start = self.at
        self.at = min(start + count, self.end)
        return self.view[start : self.at]

    def take(self, count: int) -> memoryview:
        """Read exactly `count` bytes, no copy."""
        start = self.at
        if count > self.end - start:
            raise BufferUnderflow(f"{count} bytes wanted, {self.end - start} left")
        self.at = start + count
        return self.view[start : self.at]

    def take_byte(self) -> int:
        """Read one unsigned byte."""
        at = self.at
        if at >= self.end:
            raise BufferUnderflow("one byte wanted, none left")
        self.at = at + 1
        return self.view[at]

    def check_length(self, length: int) -> int:
        """Return a length that the rest of the bytes can hold."""
        if length > self.end - self.at:
            raise BufferUnderflow(f"{length} bytes wanted, {self.end - self.at} left")
        return length

    def check_count(self, count: int) -> int:
        """Return a count of things that the rest can hold: each has one byte at least."""
        if count > self.end - self.at:
            raise BadLength(f"{count} elements in {self.end - self.at} bytes")
        self.elements_left -= count
        if self.elements_left < 0:
            raise BadLength(f"more than {self.elements_max} elements in one message")
        return count

    @contextmanager
    def window(self, size: int) -> Iterator[None]:
        """Let the next `size` bytes be all there is; they must be used up."""
        end = self.end
        self.end = self.at + self.check_length(size)
        yield
        if self.at != self.end:
            raise BadLength(f"{self.end - self.at} bytes left over in a tagged field of {size}")
        self.end = end


class Sink:
    """Collects what is written; buffers that are passed through stay parts of their own."""

    __slots__ = ("parts", "size", "tail")

    def __init__(self) -> None:
        self.parts: list[Buffer] = []
        self.tail = bytearray()
        self.size = 0

    def write(self, data: Buffer) -> int:
        """Copy small bytes in."""
        self.tail += data
        self.size += len(data)
        return len(data)

    def pass_through(self, data: Buffer) -> None:
        """Put a buffer between what was written and what will be, without a copy."""
        if self.tail:
            self.parts.append(self.tail)
            self.tail = bytearray()
        if len(data):
            self.parts.append(data)
        self.size += len(data)

    def finish(self) -> list[Buffer]:
        """Return everything written, in order."""
        if self.tail:
            self.parts.append(self.tail)
            self.tail = bytearray()
        return self.parts


class Codec(construct.Construct):  # type: ignore[misc]  # construct is untyped
    """Base of the constructs of this package: `_parse` from a Source, `_build` to a Sink."""

    def _sizeof(self, _context: Any, path: str) -> int:
        raise construct.SizeofError("sizes depend on the value", path=path)


def read_uvarint(source: Source) -> int:
    """Read an unsigned LEB128 of at most 32 bits in at most 5 bytes."""
    value = shift = 0
    while shift < 35:
        byte = source.take_byte()
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value > 0xFFFF_FFFF:
                raise BadLength("uvarint above 32 bits")
            return value
        shift += 7
    raise BadLength("uvarint of more than 5 bytes")


def pack_uvarint(value: int) -> bytes:
    """Return `value` as unsigned LEB128."""
    if 0 <= value < 0x80:
        return _ONE_BYTE[value]
    if not 0 <= value <= 0xFFFF_FFFF:
        raise ValueError(f"{value} is no 32 bit number")
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


_ONE_BYTE: Final = tuple(bytes([i]) for i in range(0x80))


@dataclass(frozen=True, slots=True)
class Length:
    """How a length or count is written; -1 is null."""

    read: Callable[[Source], int]
    pack: Callable[[int], bytes]


def _fixed_length(fmt: str) -> Length:
    struct = Struct(fmt)

    def read(source: Source) -> int:
        length: int = struct.unpack(source.take(struct.size))[0]
        if length < NULL:
            raise BadLength(f"length {length}")
        return length

    return Length(read, struct.pack)


INT16_LENGTH: Final = _fixed_length(">h")
INT32_LENGTH: Final = _fixed_length(">i")
COMPACT_LENGTH: Final = Length(
    lambda source: read_uvarint(source) - 1, lambda n: pack_uvarint(n + 1)
)


class Body(NamedTuple):
    """What a length announces: `read` is given the length, `write` writes it too."""

    read: Callable[[Source, int], Any]
    write: Callable[[Sink, Any, Length], None]


class Sized(Codec):
    """A length, or -1 for null, then a body: text, bytes, records, arrays."""

    def __init__(self, length: Length, body: Body, *, nullable: bool) -> None:
        super().__init__()
        self.length = length
        self.body = body
        self.nullable = nullable

    def _parse(self, stream: Source, _context: Any, path: str) -> Any:
        length = self.length.read(stream)
        if length == NULL:
            if not self.nullable:
                raise UnexpectedNull(path)
            return None
        return self.body.read(stream, length)

    def _build(self, obj: Any, stream: Sink, _context: Any, path: str) -> Any:
        if obj is None:
            if not self.nullable:
                raise ValueError(f"null in a field that has none: {path}")
            stream.write(self.length.pack(NULL))
        else:
            self.body.write(stream, obj, self.length)
        return obj


def _read_text(source: Source, length: int) -> str:
    if length > STRING_BYTES_MAX:
        raise BadLength(f"string of {length} bytes")
    try:
        return str(source.take(length), "utf-8")
    except UnicodeDecodeError as error:
        raise BadValue("string is not UTF-8") from error


def _write_text(sink: Sink, value: str, length: Length) -> None:
    encoded = value.encode()
    if len(encoded) > STRING_BYTES_MAX:
        raise ValueError(f"string of {len(encoded)} bytes")
    sink.write(length.pack(len(encoded)) + encoded)


def _read_blob(source: Source, length: int) -> bytes:
    return bytes(source.take(length))  # copied: small, and it outlives the frame


def _write_blob(sink: Sink, value: Buffer, length: Length) -> None:
    sink.write(length.pack(len(value)))
    sink.write(value)


def _read_records(source: Source, length: int) -> memoryview:
    return source.take(length)  # never copied


def _write_records(sink: Sink, value: Buffer | Sequence[Buffer], length: Length) -> None:
    buffers: Sequence[Buffer] = value if isinstance(value, list | tuple) else (value,)
    sink.write(length.pack(sum(map(len, buffers))))
    for buffer in buffers:
        sink.pass_through(buffer)  # never joined


TEXT: Final = Body(_read_text, _write_text)
BLOB: Final = Body(_read_blob, _write_blob)
RECORD_BYTES: Final = Body(_read_records, _write_records)


class ArrayOf(Sized):
    """An array; `element` reads and writes what is in it."""

    def __init__(self, length: Length, element: Any, *, nullable: bool) -> None:
        super().__init__(length, array_body(element), nullable=nullable)
        self.element = element


def array_body(element: Any) -> Body:
    """Return the body of an array: read as a tuple, written from any sequence."""
    parse = element._parse
    build = element._build

    def read(source: Source, count: int) -> tuple[Any, ...]:
        source.check_count(count)
        return tuple([parse(source, None, "") for _ in range(count)])

    def write(sink: Sink, value: Sequence[Any], length: Length) -> None:
        sink.write(length.pack(len(value)))
        for item in value:
            build(item, sink, None, "")

    return Body(read, write)


class Boolean(Codec):
    """One byte; anything but 0 is true, as in Kafka."""

    def _parse(self, stream: Source, _context: Any, _path: str) -> bool:
        return stream.take_byte() != 0

    def _build(self, obj: Any, stream: Sink, _context: Any, _path: str) -> Any:
        stream.write(b"\x01" if obj else b"\x00")
        return obj


class Uuid(Codec):
    """16 bytes; all zero means "none"."""

    def _parse(self, stream: Source, _context: Any, _path: str) -> bytes:
        return bytes(stream.take(16))

    def _build(self, obj: Any, stream: Sink, _context: Any, path: str) -> Any:
        if len(obj) != 16:
            raise ValueError(f"a uuid of {len(obj)} bytes: {path}")
        stream.write(obj)
        return obj


@dataclass(frozen=True, slots=True)
class Kind:
    """A field's type, by the word of Kafka's JSON; `shape(flexible, nullable)` is its codec."""

    name: str
    default: Any
    shape: Callable[[bool, bool], Any]


def _fixed(name: str, default: Any, codec: Any) -> Kind:
    return Kind(name, default, lambda _flexible, _nullable: codec)


def _sized(name: str, default: Any, body: Body, classic: Length) -> Kind:
    def shape(flexible: bool, nullable: bool) -> Sized:  # noqa: FBT001  # the shape of Kind.shape
        return Sized(COMPACT_LENGTH if flexible else classic, body, nullable=nullable)

    return Kind(name, default, shape)


BOOL: Final = _fixed("bool", default=False, codec=Boolean())
INT8: Final = _fixed("int8", 0, construct.Int8sb)
INT16: Final = _fixed("int16", 0, construct.Int16sb)
INT32: Final = _fixed("int32", 0, construct.Int32sb)
INT64: Final = _fixed("int64", 0, construct.Int64sb)
FLOAT64: Final = _fixed("float64", 0.0, construct.Float64b)
UUID: Final = _fixed("uuid", NO_UUID, Uuid())
STRING: Final = _sized("string", "", TEXT, INT16_LENGTH)
BYTES: Final = _sized("bytes", b"", BLOB, INT32_LENGTH)
RECORDS: Final = _sized("records", None, RECORD_BYTES, INT32_LENGTH)
