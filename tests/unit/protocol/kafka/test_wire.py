"""Fields become codecs: versions, nulls, tags, and only DecodeErrors out of bad bytes."""

from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.protocol.errors import BadLength, BufferUnderflow, DecodeError, UnexpectedNull
from tailrace.protocol.kafka import wire as w
from tailrace.protocol.kafka.primitives import BYTES, INT16, INT32, STRING
from tests.unit.protocol.kafka.samples import values


@dataclass(frozen=True, slots=True, kw_only=True)
class Inner:
    number: int = w.wire(INT16, default=-1)
    late: str = w.wire(STRING, since=2)


@dataclass(slots=True, kw_only=True)
class Message:
    """Versions 0 and 1 are classic, 2 is flexible."""

    name: str | None = w.wire(STRING, nullable_since=1)
    gone: int = w.wire(INT32, until=0, default=7)
    items: Sequence[Inner] | None = w.wire(w.array(Inner), nullable_since=2)
    old: str | None = w.wire(STRING, since=1, nullable_since=1, flexible=False)
    one: Inner | None = w.wire(Inner, since=2, nullable_since=2, default=None)
    tagged: Sequence[int] = w.wire(w.array(INT16), since=2, tag=0)
    blob: bytes = w.wire(BYTES, since=2, tag=3)
    struct: Inner = w.wire(Inner, since=2, tag=4)


KNOWN = [
    (0, Message(name="a", items=(Inner(number=5),)), ["000161", "00000007", "00000001", "0005"]),
    (1, Message(name=None, old="x"), ["ffff", "00000000", "000178"]),
    (
        2,
        Message(name="a", items=None, old=None, one=Inner(number=1, late="b")),
        ["0261", "00", "ffff", "01", "0001", "0262", "00", "00"],
    ),
    (
        2,
        Message(name=None, items=(Inner(),), tagged=(3,), struct=Inner(number=2)),
        ["00", "02ffff0100", "0000", "ff", "02", "0003020003", "040400020100"],
    ),
]
PLAIN = bytes.fromhex("00000000ff")  # version 2 up to its tagged fields


def decode(version: int, data: bytes) -> Message:
    return w.decode(Message, version, data, flexible=version >= 2)


def encode(version: int, message: Message) -> bytes:
    return w.join(w.encode(message, version, flexible=version >= 2))


@pytest.mark.parametrize(("version", "message", "encoded"), KNOWN)
def test_known_bytes_both_ways(version: int, message: Message, encoded: list[str]) -> None:
    assert encode(version, message).hex() == "".join(encoded)
    assert decode(version, bytes.fromhex("".join(encoded))) == message


@pytest.mark.parametrize("version", range(3))
@given(data=st.data())
def test_every_value_survives_and_every_cut_is_refused(version: int, data: st.DataObject) -> None:
    message = data.draw(values(Message, version))
    encoded = encode(version, message)
    assert decode(version, encoded) == message
    assert decode(version, encoded + b"more") == message
    for length in range(len(encoded)):
        with pytest.raises(DecodeError):
            decode(version, encoded[:length])


@pytest.mark.parametrize("version", range(3))
@given(data=st.binary(max_size=60))
def test_random_bytes_give_a_message_or_a_decode_error(version: int, data: bytes) -> None:
    try:
        decode(version, data)
    except DecodeError:
        return


def test_unknown_tags_are_skipped() -> None:
    assert decode(2, PLAIN + bytes.fromhex("020702abcd880100")) == decode(2, PLAIN + b"\0")


@pytest.mark.parametrize(
    ("tags", "error"),
    [
        ("020701ab0701ab", BadLength),  # twice
        ("020801ab0701ab", BadLength),  # descending
        ("010005020003", BufferUnderflow),  # the field ends before its size
        ("0100030200", BufferUnderflow),
        ("01000402000300", BadLength),  # bytes left over in the field
        ("010002020003", BufferUnderflow),  # more than its size
        ("01000100", UnexpectedNull),
        ("ffffffff0f", BadLength),
        ("0107ffffffff0f", BufferUnderflow),
    ],
)
def test_bad_tags_are_refused(tags: str, error: type[DecodeError]) -> None:
    with pytest.raises(error):
        decode(2, PLAIN + bytes.fromhex(tags))


def test_a_tagged_field_with_its_default_is_not_written() -> None:
    plain = Message(name=None, items=None, tagged=[], struct=Inner())
    assert encode(2, plain) == PLAIN + b"\0"


def test_any_negative_byte_is_a_null_struct() -> None:
    assert decode(2, bytes.fromhex("000000008000")).one is None


@pytest.mark.parametrize(
    "message",
    [Message(name=None), Message(gone=1 << 31), Message(items=None), Message(name="é" * 20_000)],
)
def test_what_cannot_be_written_is_our_own_error(message: Message) -> None:
    with pytest.raises(ValueError, match=r"."):
        encode(0, message)


def test_codecs_are_made_once() -> None:
    assert w.codec(Message, 1, flexible=False) is w.codec(Message, 1, flexible=False)
    assert w.codec(Message, 1, flexible=False) is not w.codec(Message, 2, flexible=True)
