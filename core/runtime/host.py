"""The machine that this process runs on."""

import socket


def host_name() -> str:
    """Return this machine's name, as the system has it: not looked up, so that it costs nothing."""
    return socket.gethostname()
