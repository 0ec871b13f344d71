r"""How a consumed record is printed: kcat's format strings, or one JSON object per line. Pure.

Keys and values are bytes and stay bytes: `%s` writes them as they are. Source: kcat(1), FORMAT.
"""

import json
import re
import struct
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from tailrace.broker.json_bytes import named_bytes

Render = Callable[["Row"], bytes]


class Row(NamedTuple):
    """One consumed record."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    """-1 if it has none."""
    timestamp_type: str
    """`create`, `append` or `none`."""
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]]


class BadFormat(ValueError):
    """A format string that cannot be used; the message names the place."""


FORMAT_HELP = r"""Format of each record:

 %s %v  value              %S  its length (-1: null)   %R  its length as 4 bytes, big-endian
 %k     key                %K  its length (-1: null)
 %t     topic              %p  partition               %o  offset
 %T     timestamp in ms    %h  headers as a=1,b=2      %%  a percent sign
 \n \r \t \0 \\ \xNN  control characters"""

_ESCAPES: Final = {"n": b"\n", "r": b"\r", "t": b"\t", "0": b"\0", "\\": b"\\"}
_TOKEN: Final = re.compile(r"%(?P<field>.?)|\\x(?P<hex>[0-9a-fA-F]{2})|\\(?P<escape>.?)", re.DOTALL)


def compile_format(text: str, null: bytes = b"") -> Render:
    """Return a function that prints a record. `null`: what stands for a missing key or value.

    Errors: BadFormat for an unknown field or escape.
    """
    parts: list[Render] = []
    end = 0
    for token in _TOKEN.finditer(text):
        if token.start() > end:
            parts.append(_literal(text[end : token.start()].encode()))
        parts.append(_part(token, null))
        end = token.end()
    if end < len(text):
        parts.append(_literal(text[end:].encode()))
    return lambda row: b"".join([part(row) for part in parts])


def json_line(row: Row) -> bytes:
    """Return a record as one line of JSON; bytes that are no UTF-8 as `*_base64`."""
    fields: dict[str, Any] = {
        "topic": row.topic,
        "partition": row.partition,
        "offset": row.offset,
        "timestamp": row.timestamp_ms,
        "timestamp_type": row.timestamp_type,
        **named_bytes("key", row.key),
        **named_bytes("value", row.value),
        "headers": [{"name": name, **named_bytes("value", value)} for name, value in row.headers],
    }
    return json.dumps(fields, ensure_ascii=False).encode() + b"\n"


def unescape(text: str) -> bytes:
    r"""Return a delimiter with its `\n`, `\t`, `\0`, `\xNN` resolved. Errors: BadFormat."""
    render = compile_format(text.replace("%", "%%"))
    return render(Row("", 0, 0, 0, "none", None, None, ()))


def _literal(data: bytes) -> Render:
    return lambda _row: data


def _part(token: re.Match[str], null: bytes) -> Render:
    if token["hex"] is not None:
        return _literal(bytes.fromhex(token["hex"]))
    if token["escape"] is not None:
        escape = _ESCAPES.get(token["escape"])
        if escape is None:
            raise BadFormat(f"unknown escape \\{token['escape']} at {token.start()}")
        return _literal(escape)
    field = _fields(null).get(token["field"])
    if field is None:
        raise BadFormat(f"unknown field %{token['field']} at {token.start()}")
    return field


def _fields(null: bytes) -> dict[str, Render]:
    def value(row: Row) -> bytes:
        return null if row.value is None else row.value

    return {
        "s": value,
        "v": value,
        "k": lambda row: null if row.key is None else row.key,
        "S": lambda row: b"%d" % _length(row.value),
        "R": lambda row: struct.pack(">i", _length(row.value)),
        "K": lambda row: b"%d" % _length(row.key),
        "t": lambda row: row.topic.encode(),
        "p": lambda row: b"%d" % row.partition,
        "o": lambda row: b"%d" % row.offset,
        "T": lambda row: b"%d" % row.timestamp_ms,
        "h": lambda row: b",".join(
            name.encode() + b"=" + (null if data is None else data) for name, data in row.headers
        ),
        "%": _literal(b"%"),
    }


def _length(data: bytes | None) -> int:
    return -1 if data is None else len(data)
