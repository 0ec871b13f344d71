"""`python -m tailrace.health [HOST:PORT]`: does a broker answer? For health checks.

Exit status 0 when it answers a Metadata request within `TIMEOUT_S`, 1 when it does not, 2 when the
address is none. Costs one Python start and one request; nothing of the broker is imported.
"""

import sys
from collections.abc import Sequence
from typing import Final

from tailrace.testing.metadata import answers

DEFAULT: Final = "127.0.0.1:9092"
TIMEOUT_S: Final = 3.0
PORT_MAX: Final = 65_535


def main(arguments: Sequence[str]) -> int:
    """Ask, say what came of it, and return the exit status."""
    address = arguments[0] if arguments else DEFAULT
    host, _, port = address.rpartition(":")
    is_port = port.isdecimal() and len(port) <= len(str(PORT_MAX)) and int(port) <= PORT_MAX
    if len(arguments) > 1 or not is_port:
        sys.stderr.write(f"error: {' '.join(arguments)!r} is no HOST:PORT\n  try: {DEFAULT}\n")
        return 2
    if answers(host.strip("[]") or "127.0.0.1", int(port), TIMEOUT_S):
        sys.stdout.write(f"{address} answers\n")
        return 0
    sys.stderr.write(f"{address} does not answer Metadata within {TIMEOUT_S:g} s\n")
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
