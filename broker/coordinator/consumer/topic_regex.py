"""Regular expressions over topic names: RE2's language, as Kafka's (RE2/J), in linear time.

A member's expression runs in the broker over all topics, so it must not be able to backtrack:
Python's `re` can. RE2 and RE2/J speak the same syntax; an expression that needs look-around or back
references is refused by both. Source: KIP-848, "Regex"; TopicRegexResolver.
"""

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import re2

REGEX_LENGTH_MAX = 4_096
"""Longest expression. Kafka's limit is a string's; topic names have 249 characters."""

_OPTIONS = re2.Options()
_OPTIONS.log_errors = False
_OPTIONS.max_mem = 1 << 20  # what one compiled expression may take; beyond it, it is refused


def regex_fault(regex: str) -> str | None:
    """Return why a regular expression cannot be used, None if it can."""
    if len(regex) > REGEX_LENGTH_MAX:
        return f"longer than {REGEX_LENGTH_MAX} characters"
    try:
        _compile(regex)
    except re2.error as error:
        reason = error.args[0]
        return reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
    return None


def matching(regex: str, names: Iterable[str]) -> frozenset[str]:
    """Return the names that match as a whole; none if the expression cannot be used.

    Cost: 1-4 us a name.
    """
    if regex_fault(regex) is not None:  # written by another release
        return frozenset()
    compiled = _compile(regex)
    return frozenset(name for name in names if compiled.fullmatch(name) is not None)


@lru_cache(maxsize=256)
def _compile(regex: str) -> Any:
    return re2.compile(regex, options=_OPTIONS)
