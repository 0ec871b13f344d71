"""Files of properties as Java reads them: `client.properties`. Pure.

Source: java.util.Properties.load(Reader).
"""

import re
from typing import Final

_LINE_END: Final = re.compile(r"\r\n|\r|\n")
_PAIR: Final = re.compile(r"((?:[^\\=:\s]|\\.)*)[ \t\f]*[=:]?[ \t\f]*(.*)", re.DOTALL)
_ESCAPE: Final = re.compile(r"\\(u[0-9A-Fa-f]{4}|.)", re.DOTALL)
_ESCAPED: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_BLANK: Final = " \t\f"


class InvalidProperties(ValueError):
    """A text that Java refuses."""


def parse_properties(text: str) -> dict[str, str]:
    """Read properties; of several values for one key the last wins.

    Errors: InvalidProperties, which names the line and not what is in it.
    """
    properties = {}
    for number, line in _logical_lines(text):
        found = _PAIR.match(line)
        if found is None or re.search(r"\\u(?![0-9A-Fa-f]{4})", line.replace("\\\\", "")):
            raise InvalidProperties(f"line {number}: \\u is not followed by four digits")
        properties[_plain(found[1])] = _plain(found[2])
    return properties


def _logical_lines(text: str) -> list[tuple[int, str]]:
    """Join lines that end with a backslash; leave out comments and what is empty."""
    lines: list[tuple[int, list[str]]] = []
    goes_on = False
    for number, natural in enumerate(_LINE_END.split(text), 1):
        line = natural.lstrip(_BLANK)
        if not goes_on and (not line or line[0] in "#!"):
            continue
        ends_open = (len(line) - len(line.rstrip("\\"))) % 2 == 1
        if not goes_on:
            lines.append((number, []))
        lines[-1][1].append(line[:-1] if ends_open else line)
        goes_on = ends_open
    return [(number, "".join(parts)) for number, parts in lines]


def _plain(text: str) -> str:
    return _ESCAPE.sub(_unescaped, text)


def _unescaped(found: re.Match[str]) -> str:
    escaped = found[1]
    if len(escaped) > 1:
        return chr(int(escaped[1:], 16))
    return _ESCAPED.get(escaped, escaped)
