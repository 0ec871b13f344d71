"""Which names a log may have. Source: reference DistributedLog 3.3."""

import re
from typing import Final

from tailrace.core.errors import InvalidStreamName

_RESERVED: Final = (".", "<")
_FORBIDDEN: Final = re.compile("[<> \x00-\x1e\x80-\x9e\ud801-\uf8fe\ufff1-\ufffe]")


def is_reserved(name: str) -> bool:
    """Tell nodes of a namespace that are not logs."""
    return name.startswith(_RESERVED)


def check_log_name(name: str) -> str:
    """Return the name as it stands in paths (one leading slash is dropped).

    Errors: InvalidStreamName.
    """
    stripped = name.removeprefix("/")
    if not stripped or is_reserved(stripped):
        raise InvalidStreamName(f"{name!r} is empty or begins with '.' or '<'")
    if any(part in ("", ".", "..") for part in stripped.split("/")):
        raise InvalidStreamName(f"{name!r} has an empty component, or '.' or '..'")
    if _FORBIDDEN.search(stripped):
        raise InvalidStreamName(f"{name!r} has a character that is not allowed")
    return stripped
