"""Users and passwords in a file of JAAS, as Java's -Djava.security.auth.login.config names one.

    Bookie {
      org.apache.zookeeper.server.auth.DigestLoginModule required
      user_alice="her password";        a user that a bookie knows
    };
    BookKeeper {
      org.apache.zookeeper.server.auth.DigestLoginModule required
      username="alice" password="her password";      what a client says of itself
    };

One login module a section. Comments are Java's: `//`, `/* */` and `#`.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from tailrace.core.runtime.config import ConfigError, Secret

FILE_BYTES_MAX: Final = 1024 * 1024
"""A larger file is not read."""
USER_PREFIX: Final = "user_"
"""Of an option that is a user, and whose value is the password."""
_FLAGS: Final = ("required", "requisite", "sufficient", "optional")
_MARKS: Final = "{};="
_TOKEN: Final = re.compile(
    r"""(?P<passed>\s+|//[^\n]*|\#[^\n]*|/\*.*?\*/)"""
    r"""|(?P<quoted>"(?:\\.|[^"\\\n])*")"""
    r"""|(?P<bad>"|/\*)"""
    r"""|(?P<word>[{};=]|[^\s{};="]+)""",
    re.DOTALL,
)
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)


class InvalidJaas(ConfigError):
    """A file of JAAS that cannot be used; the message says where, and never what values are."""


class _Token(NamedTuple):
    text: str
    line: int
    is_quoted: bool = False


def read_section(path: Path, section: str) -> Mapping[str, Secret]:
    """Return the options of a section. Blocks. Errors: InvalidJaas, also for a missing file."""
    try:
        sections = sections_of(_read(path).decode())
    except OSError as error:
        raise InvalidJaas(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InvalidJaas(f"{path}: it is not text in UTF-8") from error
    except InvalidJaas as error:
        raise InvalidJaas(f"{path}: {error}") from error
    if section not in sections:
        there = ", ".join(sorted(sections)) or "none"
        raise InvalidJaas(f"{path}: no section {section}; there are: {there}")
    return sections[section]


def _read(path: Path) -> bytes:
    with path.open("rb") as file:
        data = file.read(FILE_BYTES_MAX + 1)
    if len(data) > FILE_BYTES_MAX:
        raise InvalidJaas(f"more than {FILE_BYTES_MAX} bytes")
    return data


def sections_of(text: str) -> dict[str, dict[str, Secret]]:
    """Return the options of all sections. Errors: InvalidJaas."""
    tokens = _Tokens(text)
    sections: dict[str, dict[str, Secret]] = {}
    while not tokens.is_done:
        name = tokens.word("a section's name")
        if name in sections:
            raise InvalidJaas(f"section {name} comes twice")
        tokens.mark("{")
        sections[name] = _module(tokens)
        tokens.mark("}")
        tokens.mark(";")
    return sections


def _module(tokens: "_Tokens") -> dict[str, Secret]:
    tokens.word("a login module")
    flag = tokens.word("a flag")
    if flag.lower() not in _FLAGS:
        raise InvalidJaas(f"line {tokens.line}: a flag is one of {', '.join(_FLAGS)}")
    options: dict[str, Secret] = {}
    while not tokens.has(";"):
        name = tokens.word("an option")
        if name in options:
            raise InvalidJaas(f"line {tokens.line}: option {name} comes twice")
        tokens.mark("=")
        options[name] = Secret(tokens.word(f"the value of {name}", may_be_empty=True))
    tokens.mark(";")
    return options


class _Tokens:
    """The words of a file, one after the other."""

    def __init__(self, text: str) -> None:
        self._tokens = list(_split(text))
        self._at = 0

    @property
    def is_done(self) -> bool:
        return self._at == len(self._tokens)

    @property
    def line(self) -> int:
        return self._tokens[min(self._at, len(self._tokens) - 1)].line if self._tokens else 1

    def has(self, mark: str) -> bool:
        return not self.is_done and self._tokens[self._at] == (mark, self.line, False)

    def mark(self, mark: str) -> None:
        if not self.has(mark):
            raise InvalidJaas(f"line {self.line}: {mark} is missing")
        self._at += 1

    def word(self, what: str, *, may_be_empty: bool = False) -> str:
        found = None if self.is_done else self._tokens[self._at]
        if found is None or (found.text in (*_MARKS, "") and not found.is_quoted):
            raise InvalidJaas(f"line {self.line}: {what} is missing")
        if not found.text and not may_be_empty:
            raise InvalidJaas(f"line {self.line}: {what} is empty")
        self._at += 1
        return found.text


def _split(text: str) -> Iterator[_Token]:
    line = 1
    for found in _TOKEN.finditer(text):
        token, kind = found.group(), found.lastgroup
        if kind == "bad":
            raise InvalidJaas(f"line {line}: a quoted value or a comment without an end")
        if kind == "quoted":
            yield _Token(_ESCAPED.sub(r"\1", token[1:-1]), line, is_quoted=True)
        elif kind == "word":
            yield _Token(token, line)
        line += token.count("\n")
