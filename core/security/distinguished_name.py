"""The name of whom a certificate is for, as Kafka's brokers write it. Pure.

Java's `X500Principal.getName()` is RFC 2253 with habits of its own: `#` and `=` are escaped
wherever they stand, and what is not UTF-8 is replaced. Quotas and ACLs name users by this text.
"""

from collections.abc import Iterator
from typing import Final

from cryptography import x509

_WORDS: Final = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
}
"""Types that RFC 2253 has a word for. Others are numbers, their values DER in hexadecimal."""
_TEXTS: Final = frozenset({0x0C, 0x12, 0x13, 0x14, 0x16, 0x1B, 0x1C, 0x1E})
"""DER tags of strings."""
_ESCAPED: Final = frozenset(',=+<>#;"\\')
_BLANK: Final = " \r"


def subject_of(certificate: bytes) -> str:
    """Return the name in a certificate. Shape: DER -> `CN=alice,O=Example`; "" without a name.

    Errors: ValueError: it is not a certificate.
    """
    name = x509.load_der_x509_certificate(certificate).subject.public_bytes()
    relative = list(_children(_content(name)))
    return ",".join("+".join(map(_attribute, _children(_content(each)))) for each in relative[::-1])


def _attribute(der: bytes) -> str:
    kind, value = _children(_content(der))
    oid = _dotted(_content(kind))
    word = _WORDS.get(oid)
    if word is None or value[0] not in _TEXTS:
        return f"{word or oid}=#{value.hex()}"
    return f"{word}={_escaped(_content(value).decode(errors='replace'))}"


def _escaped(text: str) -> str:
    lead = len(text) - len(text.lstrip(_BLANK))
    end = len(text.rstrip(_BLANK))
    escaped = []
    for i, char in enumerate(text):
        if char == "\0":
            escaped.append("\\00")
        elif i < lead or i >= end or char in _ESCAPED:
            escaped.append("\\" + char)
        else:
            escaped.append(char)
    return "".join(escaped)


def _children(content: bytes) -> Iterator[bytes]:
    """Split what a DER value holds. The name was parsed before, so its lengths are right."""
    at = 0
    while at < len(content):
        begin, size = _span(content, at)
        yield content[at : begin + size]
        at = begin + size


def _content(der: bytes) -> bytes:
    begin, size = _span(der, 0)
    return der[begin : begin + size]


def _span(der: bytes, at: int) -> tuple[int, int]:
    """Return where the content of the value at `at` begins, and its size."""
    size = der[at + 1]
    if size < 0x80:
        return at + 2, size
    begin = at + 2 + (size & 0x7F)
    return begin, int.from_bytes(der[at + 2 : begin], "big")


def _dotted(oid: bytes) -> str:
    """Return an object identifier in its text form."""
    numbers, number = [], 0
    for byte in oid:
        number = number << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(number)
            number = 0
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, [first, numbers[0] - 40 * first, *numbers[1:]]))
