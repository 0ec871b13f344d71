"""How long a thread that computes keeps the interpreter while the event loop wants it.

Python lets it have 5 ms each time, which every request then waits for, several times: whenever it
comes back from a socket or another thread. While threads compute for long, 0.1 ms: as long as the
loop has nothing to do, they lose nothing by it.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

QUICK_S: Final = 0.0001

_usual_s = 0.0
_users = 0


@contextmanager
def quick_switches() -> Iterator[None]:
    """Have threads switch quickly until the last of such blocks ends.

    All calls come from the loop's thread.
    """
    global _users, _usual_s  # noqa: PLW0603 - the interval is the process', too
    if not _users:
        _usual_s = sys.getswitchinterval()
        sys.setswitchinterval(min(QUICK_S, _usual_s))
    _users += 1
    try:
        yield
    finally:
        _users -= 1
        if not _users:
            sys.setswitchinterval(_usual_s)
