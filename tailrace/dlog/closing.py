"""Closing several things: one that fails keeps no other from being closed."""

from collections.abc import Sequence
from typing import Final

from tailrace.core.errors import CoreError
from tailrace.core.runtime.tasks import together
from tailrace.dlog.opening import Closeable

_AT_ONCE: Final = 64


async def close_all(opened: Sequence[Closeable]) -> None:
    """Close all of them, some at once. Errors: the first one's, when all were closed."""
    errors: list[CoreError] = []

    async def close(one: Closeable) -> None:
        try:
            await one.close()
        except CoreError as error:
            errors.append(error)

    for at in range(0, len(opened), _AT_ONCE):
        await together([close(one) for one in opened[at : at + _AT_ONCE]])
    if errors:
        raise errors[0]
