"""`wire()` fields of a message dataclass -> its construct, one per version, built on first use.

A message class covers all versions: a field says since (and until) which version it is there,
since when it may be null, and whether it travels as a tagged field. The rules are Kafka's; a test
holds every declaration equal to Kafka's own JSON.
Errors: `decode` raises only protocol.errors types; `encode` raises ValueError or TypeError, and
that is our own bug.
"""

import dataclasses
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from struct import error as struct_error
from typing import Any, Final, TypeVar, dataclass_transform

import construct
import msgspec

from tailrace.protocol.errors import BadLength, BufferUnderflow, DecodeError
from tailrace.protocol.ids import Buffer
from tailrace.protocol.kafka.primitives import (
    COMPACT_LENGTH,
    ELEMENTS_MAX,
    INT32_LENGTH,
    ArrayOf,
    Codec,
    Kind,
    Sink,
    Source,
    pack_uvarint,
    read_uvarint,
)

T = TypeVar("T")

_UNSET: Final = object()

TAGS_MAX: Final = 256
"""Tagged fields in one place. Kafka's messages have five at most; a newer peer may know more."""


@dataclass(frozen=True, slots=True)
class Array:
    """The kind of an array of primitives or of structs."""

    element: "Kind | type[Any]"


def array(element: Kind | type[Any]) -> Array:
    """Return the kind "array of `element`"."""
    return Array(element)


@dataclass(frozen=True, slots=True)
class Wire:
    """How one field travels. Shape: `until` is inclusive; a tag needs flexible versions."""

    kind: Kind | Array | type[Any]
    since: int
    until: int | None
    nullable_since: int | None
    tag: int | None
    flexible: bool

    def present(self, version: int) -> bool:
        """Say whether `version` has the field."""
        return version >= self.since and (self.until is None or version <= self.until)

    def nullable(self, version: int) -> bool:
        """Say whether the field may be null in `version`."""
        return self.nullable_since is not None and version >= self.nullable_since


def wire(  # noqa: PLR0913  # one keyword per attribute of Kafka's JSON
    kind: Kind | Array | type[Any],
    since: int = 0,
    until: int | None = None,
    *,
    nullable_since: int | None = None,
    tag: int | None = None,
    flexible: bool = True,
    default: Any = _UNSET,
) -> Any:
    """Declare a field: its kind, the versions that have it, since when it may be null, its tag.

    `flexible=False` keeps the old length prefix in flexible versions (the header's client id). The
    default is Kafka's: zero, "", no elements, or a struct's own; a struct that is a default is
    frozen, because all messages share the one instance.
    """
    spec = Wire(kind, since, until, nullable_since, tag, flexible)
    metadata = {"wire": spec}
    if default is not _UNSET:
        return dataclasses.field(default=default, metadata=metadata)
    if isinstance(kind, Array):
        return dataclasses.field(default=(), metadata=metadata)
    if isinstance(kind, Kind):
        return dataclasses.field(default=kind.default, metadata=metadata)
    return dataclasses.field(default=kind(), metadata=metadata)  # a frozen struct: shared


@dataclass_transform(kw_only_default=True)
def hot_message(cls: type[T]) -> type[T]:
    """Make a message of a class with `wire()` fields, as a dataclass would be.

    For those that most requests are made of: it takes 0.15 us to make one, a dataclass 0.5 to 1.
    """
    fields = {each.name: each for each in dataclasses.fields(dataclass(kw_only=True)(cls))}  # type: ignore[arg-type]  # it is one
    made: Any = msgspec.defstruct(
        cls.__name__,
        [(name, each.type, each.default) for name, each in fields.items()],
        kw_only=True,
        module=cls.__module__,
        namespace={"__doc__": cls.__doc__, "__dataclass_fields__": fields},
    )
    return made  # type: ignore[no-any-return]


def tagged_fields(source: Source) -> Iterator[tuple[int, int]]:
    """Yield tag and size of each tagged field; who iterates reads or skips the field itself."""
    last = -1
    count = source.check_count(read_uvarint(source))
    if count > TAGS_MAX:
        raise BadLength(f"{count} tagged fields in one place, more than {TAGS_MAX}")
    for _ in range(count):
        tag = read_uvarint(source)
        if tag <= last:
            raise BadLength(f"tag {tag} after tag {last}")
        last = tag
        yield tag, read_uvarint(source)


def skip_tagged(source: Source) -> None:
    """Read past a section of tagged fields of which none is known."""
    for _, size in tagged_fields(source):
        source.take(size)


class Struct(Codec):
    """One version of a message or of a struct in it: plain fields in order, then tagged ones."""

    def __init__(self, message: type[Any], version: int, *, flexible: bool) -> None:
        super().__init__()
        self.message = message
        self.flexible = flexible
        self.fields: list[tuple[str, Any]] = []
        self.tagged: list[tuple[int, str, Any, Any]] = []  # tag, name, codec, default
        for field in dataclasses.fields(message):
            spec: Wire = field.metadata["wire"]
            if not spec.present(version):
                continue
            shape = _shape(spec, version, flexible=flexible and spec.flexible)
            if spec.tag is None:
                self.fields.append((field.name, shape))
            else:
                self.tagged.append((spec.tag, field.name, shape, field.default))
        self.tagged.sort(key=lambda entry: entry[0])
        self.by_tag = {tag: (name, shape) for tag, name, shape, _ in self.tagged}
        self.has_arrays: bool = any(
            isinstance(shape, ArrayOf) or (isinstance(shape, Struct) and shape.has_arrays)
            for _, shape in self.fields
        )

    def _parse(self, stream: Source, _context: Any, _path: str) -> Any:
        values = {name: shape._parse(stream, None, name) for name, shape in self.fields}
        if self.flexible:
            self.read_tagged(stream, values)
        return self.message(**values)

    def _build(self, obj: Any, stream: Sink, _context: Any, _path: str) -> Any:
        for name, shape in self.fields:
            shape._build(getattr(obj, name), stream, None, name)
        if self.flexible:
            self.write_tagged(stream, obj)
        return obj

    def read_tagged(self, source: Source, values: dict[str, Any]) -> None:
        """Read the tagged fields that are known, past the others."""
        for tag, size in tagged_fields(source):
            known = self.by_tag.get(tag)
            if known is None:  # from a newer peer
                source.take(size)
                continue
            name, shape = known
            with source.window(size):
                values[name] = shape._parse(source, None, name)

    def write_tagged(self, sink: Sink, obj: Any) -> None:
        """Write the tagged fields that are not their defaults."""
        present = [
            (tag, shape, value)
            for tag, name, shape, default in self.tagged
            if not _is_default(value := getattr(obj, name), default)
        ]
        sink.write(pack_uvarint(len(present)))
        for tag, shape, value in present:
            body = Sink()
            shape._build(value, body, None, "(tagged)")
            sink.write(pack_uvarint(tag) + pack_uvarint(body.size))
            for part in body.finish():
                sink.write(part)


class NullableStruct(Codec):
    """A struct behind one byte: -1 for null, 1 for present."""

    def __init__(self, struct: Struct) -> None:
        super().__init__()
        self.struct = struct

    def _parse(self, stream: Source, _context: Any, path: str) -> Any:
        if stream.take_byte() >= 0x80:  # Kafka: any negative byte
            return None
        return self.struct._parse(stream, None, path)

    def _build(self, obj: Any, stream: Sink, _context: Any, path: str) -> Any:
        stream.write(b"\xff" if obj is None else b"\x01")
        if obj is not None:
            self.struct._build(obj, stream, None, path)
        return obj


_CODECS: dict[tuple[type[Any], int, bool], Struct] = {}


def codec(message: type[Any], version: int, *, flexible: bool) -> Struct:
    """Return the construct of one version of `message`. Cost: built once, then a dict lookup."""
    key = (message, version, flexible)
    found = _CODECS.get(key)
    if found is None:
        found = _CODECS[key] = Struct(message, version, flexible=flexible)
    return found


def _shape(spec: Wire, version: int, *, flexible: bool) -> Any:
    nullable = spec.nullable(version)
    kind = spec.kind
    if isinstance(kind, Kind):
        return kind.shape(flexible, nullable)
    if isinstance(kind, Array):
        element = kind.element
        shape = (
            element.shape(flexible, False)  # noqa: FBT003  # no array of Kafka's has null elements
            if isinstance(element, Kind)
            else codec(element, version, flexible=flexible)
        )
        return ArrayOf(COMPACT_LENGTH if flexible else INT32_LENGTH, shape, nullable=nullable)
    struct = codec(kind, version, flexible=flexible)
    return NullableStruct(struct) if nullable else struct


def _is_default(value: Any, default: Any) -> bool:
    if default == ():
        return value is not None and len(value) == 0
    return bool(value == default)


@contextmanager
def reading(message: type[Any], version: int) -> Iterator[None]:
    """Say in protocol.errors' words what construct raises while it reads a message."""
    try:
        yield
    except construct.StreamError as error:
        raise BufferUnderflow(f"{message.__name__} v{version}") from error
    except construct.ConstructError as error:
        raise DecodeError(f"{message.__name__} v{version}") from error


@contextmanager
def writing(message: object, version: int) -> Iterator[None]:
    """Say ValueError for whatever is raised because a message cannot be written."""
    try:
        yield
    except (construct.ConstructError, struct_error) as error:
        raise ValueError(f"{type(message).__name__} v{version}: {error}") from error


def decode(
    message: type[T],
    version: int,
    body: Buffer,
    *,
    flexible: bool,
    elements_max: int = ELEMENTS_MAX,
) -> T:
    """Decode one message from the start of `body`; bytes behind it are ignored, as Kafka does."""
    source = Source(body, elements_max)
    with reading(message, version):
        decoded: T = codec(message, version, flexible=flexible)._parse(source, None, "")
    return decoded


def encode(message: object, version: int, *, flexible: bool) -> list[Buffer]:
    """Encode one message: buffers to write in order, record bytes among them as they were given."""
    sink = Sink()
    with writing(message, version):
        codec(type(message), version, flexible=flexible)._build(message, sink, None, "")
    return sink.finish()


def join(parts: Sequence[Buffer]) -> bytes:
    """Return the parts as one bytes: for requests we send and for tests, not for record data."""
    return b"".join(parts)
