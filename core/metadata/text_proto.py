"""Protobuf's text format, byte for byte as Java's TextFormat prints it.

BookKeeper keeps ledger metadata of version 2, cookies and what auto-recovery notes in this form.
Pure. Source: checked against protobuf-java by tests/java/test_bookie_metadata.py.
"""

import re
from typing import Any, Final

from google.protobuf.descriptor import FieldDescriptor

_ESCAPES: Final = {
    7: "\\a",
    8: "\\b",
    9: "\\t",
    10: "\\n",
    11: "\\v",
    12: "\\f",
    13: "\\r",
    34: '\\"',
    39: "\\'",
    92: "\\\\",
}
_UNESCAPES: Final = {code[1]: byte for byte, code in _ESCAPES.items()}
_CODE: Final = re.compile(r"\\([0-7]{1,3}|.)", re.DOTALL)


def print_message(message: Any, indent: str = "") -> str:
    """Return a message as text: one field per line, in the order of their numbers."""
    return "".join(
        _line(field, one, indent)
        for field, value in message.ListFields()
        for one in (value if field.is_repeated else (value,))
    )


def escape(data: bytes) -> str:
    """Return what stands between the quotes for these bytes: ASCII only."""
    return "".join(
        _ESCAPES.get(byte) or (chr(byte) if 32 <= byte < 127 else f"\\{byte:03o}") for byte in data
    )


def unescape(text: str) -> bytes:
    """Return the bytes that a quoted value stands for; unescaped text is taken as UTF-8."""

    def byte_of(match: "re.Match[str]") -> str:
        code = match[1]
        if code[0] in "01234567":
            return chr(int(code, 8) & 0xFF)
        return chr(_UNESCAPES.get(code, ord(code)))

    # Each character below is one byte of the value.
    return _CODE.sub(byte_of, text.encode().decode("latin-1")).encode("latin-1")


def _line(field: FieldDescriptor, value: Any, indent: str) -> str:
    if field.type == FieldDescriptor.TYPE_MESSAGE:
        return f"{indent}{field.name} {{\n{print_message(value, indent + '  ')}{indent}}}\n"
    return f"{indent}{field.name}: {_scalar(field, value)}\n"


def _scalar(field: FieldDescriptor, value: Any) -> str:
    if field.type == FieldDescriptor.TYPE_ENUM:
        assert field.enum_type is not None, "an enum field has a type"
        return str(field.enum_type.values_by_number[value].name)
    if isinstance(value, str | bytes):
        return f'"{escape(value.encode() if isinstance(value, str) else value)}"'
    return str(value)
