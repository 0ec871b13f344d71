"""The machine that this process runs on."""

import socket


def host_name() -> str:
    """Return this machine's name, as the system has it: not looked up, so that it costs nothing."""
    return socket.gethostname()


def check_address(host: str, port: int) -> None:
    """See whether a server could listen there now, for libraries that do not say why they cannot.

    `host` "": all addresses of the machine. Errors: OSError with the reason and the address.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    socket.create_server((host, port), family=family).close()
