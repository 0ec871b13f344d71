"""Long messages, read and written in steps: the same bytes and values as `wire`, and its errors.

A message may have `ELEMENTS_MAX` elements, of 1 to 30 us each. Whoever has others waiting reads and
writes one some hundred fields at a time: a function here is a generator that yields whenever so
many are done, and returns the result. What is no array is done in one step.
"""

from collections.abc import Generator
from typing import Any, Final, TypeAlias, TypeVar

from tailrace.protocol.errors import UnexpectedNull
from tailrace.protocol.ids import Buffer
from tailrace.protocol.kafka.primitives import NULL, ArrayOf, Sink, Source
from tailrace.protocol.kafka.wire import Struct, codec, reading, writing

T = TypeVar("T")
Steps: TypeAlias = Generator[None, None, T]

STEP_FIELDS: Final = 1500
"""Fields of one step, some 3 us each; those of elements in arrays within arrays too."""


class _Work:
    """What was done in this step."""

    __slots__ = ("fields",)

    def __init__(self) -> None:
        self.fields = 0

    def is_step(self, fields: int) -> bool:
        """Count fields that were done, and say whether a step is."""
        self.fields += fields
        if self.fields < STEP_FIELDS:
            return False
        self.fields = 0
        return True


def decode(message: type[T], version: int, body: Buffer, *, flexible: bool) -> Steps[T]:
    """Decode one message as `wire.decode` does."""
    with reading(message, version):
        struct = codec(message, version, flexible=flexible)
        decoded: T = yield from _read(struct, Source(body), _Work())
    return decoded


def encode(message: object, version: int, *, flexible: bool) -> Steps[list[Buffer]]:
    """Encode one message as `wire.encode` does."""
    sink = Sink()
    with writing(message, version):
        struct = codec(type(message), version, flexible=flexible)
        yield from _write(struct, message, sink, _Work())
    return sink.finish()


def _read(struct: Struct, source: Source, work: _Work) -> Steps[Any]:
    values = {}
    for name, shape in struct.fields:
        if isinstance(shape, ArrayOf):
            values[name] = yield from _read_array(shape, name, source, work)
        elif isinstance(shape, Struct):
            values[name] = yield from _read(shape, source, work)
        else:
            values[name] = shape._parse(source, None, name)
    if struct.flexible:
        struct.read_tagged(source, values)
    return struct.message(**values)


def _read_array(
    array: ArrayOf, name: str, source: Source, work: _Work
) -> Steps[tuple[Any, ...] | None]:
    count = array.length.read(source)
    if count == NULL:
        if not array.nullable:
            raise UnexpectedNull(name)
        return None
    source.check_count(count)
    element = array.element
    fields = _fields(element)
    elements = []
    for _ in range(count):
        if isinstance(element, Struct) and element.has_arrays:
            elements.append((yield from _read(element, source, work)))
        else:
            elements.append(element._parse(source, None, ""))
        if work.is_step(fields):
            yield
    return tuple(elements)


def _write(struct: Struct, value: Any, sink: Sink, work: _Work) -> Steps[None]:
    for name, shape in struct.fields:
        field = getattr(value, name)
        if isinstance(shape, ArrayOf) and field:
            yield from _write_array(shape, field, sink, work)
        elif isinstance(shape, Struct):
            yield from _write(shape, field, sink, work)
        else:
            shape._build(field, sink, None, name)
    if struct.flexible:
        struct.write_tagged(sink, value)


def _write_array(array: ArrayOf, value: Any, sink: Sink, work: _Work) -> Steps[None]:
    sink.write(array.length.pack(len(value)))
    element = array.element
    fields = _fields(element)
    for each in value:
        if isinstance(element, Struct) and element.has_arrays:
            yield from _write(element, each, sink, work)
        else:
            element._build(each, sink, None, "")
        if work.is_step(fields):
            yield


def _fields(element: Any) -> int:
    """Return how many fields an element counts for: its place in the array is one."""
    return 1 + len(element.fields) if isinstance(element, Struct) else 1
