"""Regular expressions of clients and operators: RE2's language, as Kafka's (RE2/J). Pure.

Python's `re` can backtrack; RE2 cannot, but takes as many steps for a character as its program is
long where the automaton does not fit its memory: (.?){1000} took 6 ms for a name. So a program has
a limit, and nothing is captured, which only the slow ways can do. An expression that needs
look-around or back references is refused here and by RE2/J.
"""

from functools import lru_cache
from typing import Any, Final

import re2

LENGTH_MAX: Final = 4_096
"""Longest expression. Kafka's limit is a string's."""
PROGRAM_MAX: Final = 1_300
"""Instructions: one for a plain character, 9 for a dot, 1,200 for all letters of Unicode."""
CLASSES_MAX: Final = 32
"""Unicode's classes in one expression: to read one takes up to 0.3 ms."""

_OPTIONS: Final = re2.Options()
_OPTIONS.log_errors = False  # the client is told
_OPTIONS.never_capture = True
_OPTIONS.max_mem = 1 << 17  # what one compiled expression may take; beyond it, it is refused


_CAPTURING: Final = re2.Options()
_CAPTURING.log_errors = False
_CAPTURING.max_mem = 1 << 17


class BadExpression(Exception):
    """An expression that cannot be used; the message says why."""


@lru_cache(maxsize=256)
def expression(text: str) -> Any:
    """Return a compiled expression. Errors: BadExpression.

    Cost: to compile it, 30 ms at most; for a name of 249 characters, 0.4 ms at most, 4 us usually.
    """
    if len(text) > LENGTH_MAX:
        raise BadExpression(f"longer than {LENGTH_MAX} characters")
    if text.lower().count("\\p") > CLASSES_MAX:
        raise BadExpression(f"more than {CLASSES_MAX} classes of Unicode")
    return _compiled(text, _OPTIONS)


def capturing_expression(text: str) -> Any:
    """Return a compiled expression of an operator's, whose groups can be read.

    Errors: BadExpression. Cost: some us for each character of a name.
    """
    return _compiled(text, _CAPTURING)


def _compiled(text: str, options: Any) -> Any:
    try:
        compiled = re2.compile(text, options=options)
    except re2.error as error:
        reason = error.args[0]
        words = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        raise BadExpression(words) from None
    if compiled.programsize > PROGRAM_MAX:
        raise BadExpression(f"a program of {compiled.programsize} steps, {PROGRAM_MAX} are taken")
    return compiled
