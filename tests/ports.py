"""Ports for processes that must come back on the same one."""

import fcntl
import os
import socket
import tempfile
from itertools import count
from typing import Final

FIRST: Final = 20_000
LAST: Final = 32_000
"""Below what the system gives to outgoing connections, which could take a port between two runs."""

_tries = count((os.getpid() * 37) % (LAST - FIRST))
_reserved: Final = os.open(
    f"{tempfile.gettempdir()}/tailrace-test-ports-{os.getuid()}", os.O_RDWR | os.O_CREAT, 0o600
)
"""A lock on the byte of its number keeps a port for this process until it ends."""


def free_port() -> int:
    """Return a port of 127.0.0.1 that no process listens on, and no test was given before.

    Of all tests that run on this machine: a server that is being started, or that is down between
    two runs, does not hold its port itself.
    """
    for attempt in _tries:
        port = FIRST + attempt % (LAST - FIRST)
        try:
            fcntl.lockf(_reserved, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
            with socket.create_server(("127.0.0.1", port)):
                return port
        except OSError:
            continue
    raise AssertionError("unreachable: the count has no end")
