"""A port that stays the broker's from its first start to its last end."""

import socket

from tailrace.testing.errors import BrokerError

HOST = "127.0.0.1"


def reserve_port(port: int) -> socket.socket:
    """Return a socket that is bound, and never listens: who holds it holds the port. 0: any.

    A bound port is given to no outgoing connection and to no other test, also while the broker is
    down. The broker may listen on it all the same: Linux lets two sockets with SO_REUSEADDR bind
    one port as long as only one of them listens.

    Errors: BrokerError if somebody has the port.
    """
    held = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        if port:  # connections of an earlier broker may linger there, in TIME_WAIT
            held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind((HOST, port))
    except (OSError, OverflowError) as error:
        held.close()
        raise BrokerError(
            f"cannot have port {port} of {HOST}: {error}",
            "stop what listens there, or leave `port` out: a free one is taken then",
        ) from error
    # Only now: with it before, the system might choose a port that somebody else holds this way.
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    return held
