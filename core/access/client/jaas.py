"""`sasl.jaas.config` as Kafka's clients write it. Pure.

    org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="p";

Source: org.apache.kafka.common.security.JaasConfig, java.io.StreamTokenizer. No error shows what is
in the text: it holds a password.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from typing_extensions import override

_FLAGS: Final = frozenset({"required", "requisite", "sufficient", "optional"})
_TOKEN: Final = re.compile(
    r"""(?P<blank>[\x00-\x20]+|//[^\n\r]*|/\*.*?\*/)"""
    r"""|"(?P<double>(?:[^"\\\n\r]|\\.)*)"|'(?P<single>(?:[^'\\\n\r]|\\.)*)'"""
    r"""|(?P<word>[A-Za-z_$\u00a0-\uffff][A-Za-z0-9_$.\-\u00a0-\uffff]*)|(?P<sign>[=;])""",
    re.DOTALL,
)
_ESCAPE: Final = re.compile(r"\\([0-3][0-7]{0,2}|[4-7][0-7]?|.)", re.DOTALL)
_ESCAPED: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


class InvalidJaas(ValueError):
    """A text that Kafka's clients refuse, or that names more than one module."""


class LoginModule(NamedTuple):
    """Who a client is, and by what it shows that."""

    name: str
    """Java's class."""
    options: Mapping[str, str]

    @override
    def __repr__(self) -> str:
        """Return the name alone: options are secrets."""
        return f"LoginModule({self.name})"


def parse_jaas(text: str) -> LoginModule:
    """Read a text of one module. Errors: InvalidJaas, without what is in it."""
    tokens = list(_tokens(text))
    if not tokens:
        raise InvalidJaas("it names no login module")
    if len(tokens) < 2 or tokens[1].lower() not in _FLAGS:
        raise InvalidJaas("the login module is followed by none of required, optional, ...")
    try:
        end = tokens.index(_END)
    except ValueError:
        raise InvalidJaas("it does not end with a semicolon") from None
    if tokens[end + 1 :]:
        raise InvalidJaas("it names more than one login module")
    return LoginModule(str(tokens[0]), _options(tokens[2:end]))


class _Sign(str):
    """`=` or `;`, which a quoted text of the same character is not."""

    __slots__ = ()

    @override
    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Sign) and str.__eq__(self, other)

    __hash__ = str.__hash__


_END: Final = _Sign(";")
_IS: Final = _Sign("=")


def _options(tokens: list[str]) -> dict[str, str]:
    options = {}
    for at in range(0, len(tokens), 3):
        key, *rest = tokens[at : at + 3]
        if isinstance(key, _Sign) or len(rest) < 2 or rest[0] != _IS or isinstance(rest[1], _Sign):
            raise InvalidJaas(f"option {at // 3 + 1} is not NAME=VALUE; a value is quoted")
        options[key] = rest[1]
    return options


def _tokens(text: str) -> Iterator[str]:
    at = 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise InvalidJaas(f"it cannot be read from character {at + 1} on; quote the values")
        at = found.end()
        quoted = found["double"] if found["double"] is not None else found["single"]
        if quoted is not None:
            yield _ESCAPE.sub(_unescaped, quoted)
        elif found["word"] is not None:
            yield found["word"]
        elif found["sign"] is not None:
            yield _Sign(found["sign"])


def _unescaped(found: re.Match[str]) -> str:
    escaped = found[1]
    if escaped[0] in "01234567":
        return chr(int(escaped, 8))
    return _ESCAPED.get(escaped, escaped)
