"""One line of a shell block, taken apart: what a page may ask a reader to paste.

A page keeps to a small part of the shell, so that every line is one command: words, quotes, a pipe,
a `&` at the end, a comment. Variables, lists of commands, redirections and patterns are refused.
"""

import re
import shlex
from dataclasses import dataclass
from typing import Any, Final

from typer.main import get_command

from tailrace.tools.main import app

SERVERS: Final = frozenset({"start", "broker", "bookie", "autorecovery"})
"""Commands that run until they are stopped, if no command of their group is named."""
_SERVERS_IN_GROUPS: Final = frozenset({("proxy", "write"), ("proxy", "read")})
"""And those that are commands of a group."""
_REFUSED: Final = re.compile(r"[$`*;<>()]|&&|\|\|")


class TooMuchShell(Exception):
    """A line is more than one command in words."""


@dataclass(frozen=True, slots=True)
class CommandLine:
    """What one line runs: each command's words, joined by pipes."""

    commands: tuple[tuple[str, ...], ...]
    is_background: bool


def parse(line: str) -> CommandLine | None:
    """Take a line apart; None if there is only a comment. Errors: TooMuchShell."""
    outside_quotes = re.sub(r"'[^']*'", "", line.partition(" #")[0])
    if _REFUSED.search(outside_quotes):
        raise TooMuchShell(line)
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|&")
    lexer.whitespace_split = True
    words = list(lexer)
    if not words:
        return None
    is_background = words[-1] == "&"
    commands: list[list[str]] = [[]]
    for word in words[:-1] if is_background else words:
        if word == "|":
            commands.append([])
        else:
            commands[-1].append(word)
    return CommandLine(tuple(map(tuple, commands)), is_background)


def is_server(words: tuple[str, ...]) -> bool:
    """Whether a command of `tailrace` runs until it is stopped."""
    if words[0] != "tailrace" or "--show-config" in words:
        return False
    if words[1:3] in _SERVERS_IN_GROUPS:
        return True
    if words[1] not in SERVERS:
        return False
    command: Any = get_command(app)
    below = getattr(command.get_command(None, words[1]), "commands", {})
    return not any(word in below for word in words[2:])


def check_words(words: tuple[str, ...]) -> None:
    """Let the real parser take the words of a `tailrace` command. Errors: those of the parser."""
    command: Any = get_command(app)
    context = command.make_context("tailrace", list(words[1:]))
    while getattr(command, "commands", None):
        rest = [*context._protected_args, *context.args]
        if not rest:
            break
        _, command, rest = command.resolve_command(context, rest)
        context = command.make_context(command.name, rest, parent=context)


def check_names(words: tuple[str, ...]) -> None:
    """Check the names of commands and options in a part of a command line."""
    command: Any = get_command(app)
    for word in words[1:]:
        if word.startswith("-"):
            known = {"--help"} | {name for each in command.params for name in each.opts}
            assert word.partition("=")[0] in known, f"{command.name} has no option {word}"
        elif getattr(command, "commands", None):
            found = command.get_command(None, word)
            assert found is not None, f"{command.name} has no command {word}"
            command = found
