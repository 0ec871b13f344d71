"""`python -m tailrace.health [PROTOCOL://][HOST:PORT]`: does a broker answer? For health checks.

Exit status 0 when it answers a Metadata request within `TIMEOUT_S`, 1 when it does not, 2 when the
address is not one. Costs one Python start and one request; nothing of the broker is imported.
PROTOCOL is the listener's, as in `SASL_SSL://127.0.0.1:9093`: with TLS or SASL it is asked for its
versions, which needs no user. Its certificate is not looked at, since nothing is told to it.
"""

import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from tailrace.testing.metadata import answers, lets_ask

DEFAULT: Final = "127.0.0.1:9092"
TIMEOUT_S: Final = 3.0
PORT_MAX: Final = 65_535
PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


def main(arguments: Sequence[str]) -> int:
    """Ask, say what came of it, and return the exit status."""
    address = arguments[0] if arguments else DEFAULT
    named, mark, place = address.rpartition("://")
    protocol = named if mark else "PLAINTEXT"
    host, _, port = place.rpartition(":")
    is_port = port.isdecimal() and len(port) <= len(str(PORT_MAX)) and int(port) <= PORT_MAX
    if len(arguments) > 1 or not is_port or protocol not in PROTOCOLS:
        sys.stderr.write(f"error: {' '.join(arguments)!r} is not HOST:PORT\n  try: {DEFAULT}\n")
        return 2
    if _asks(protocol)(host.strip("[]") or "127.0.0.1", int(port), TIMEOUT_S):
        sys.stdout.write(f"{address} answers\n")
        return 0
    sys.stderr.write(f"{address} does not answer within {TIMEOUT_S:g} s\n")
    return 1


def _asks(protocol: str) -> Callable[[str, int, float], bool]:
    if protocol == "PLAINTEXT":
        return answers
    if protocol == "SASL_PLAINTEXT":
        return partial(lets_ask, context=None)
    import ssl  # for those who need it

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return partial(lets_ask, context=context)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
