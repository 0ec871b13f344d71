"""Ports for processes that must come back on the same one."""

import os
import socket
from itertools import count
from typing import Final

FIRST: Final = 20_000
LAST: Final = 32_000
"""Below what the system gives to outgoing connections, which could take a port between two runs."""

_tries = count((os.getpid() * 37) % (LAST - FIRST))


def free_port() -> int:
    """Return a port of 127.0.0.1 that nobody listens on, and no test of this process had before."""
    for attempt in _tries:
        port = FIRST + attempt % (LAST - FIRST)
        try:
            with socket.create_server(("127.0.0.1", port)):
                return port
        except OSError:
            continue
    raise AssertionError("unreachable: the count has no end")
