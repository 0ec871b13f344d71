"""HOST:PORT on the command line, and what it sets. Pure."""

from typing import NamedTuple

from broker.cli.errors import CliError, Exit
from core.runtime.config import Assignment

PORT_MAX = 65_535


class Endpoint(NamedTuple):
    """A host and a port; an empty host means all addresses."""

    host: str
    port: int


def parse_endpoint(text: str, option: str, default_port: int = 9092) -> Endpoint:
    """Read HOST:PORT, HOST, :PORT, or [IPV6]:PORT. Errors: CliError, which names the option."""
    bracketed, closed, rest = text.removeprefix("[").partition("]")
    if text.startswith("[") and closed:
        host, port = bracketed, rest.removeprefix(":")
    elif text.count(":") > 1:
        raise _refused(text, option)
    else:
        host, _, port = text.partition(":")
    if not port:
        return Endpoint(host, default_port)
    if not port.isdecimal() or not port.isascii() or int(port) > PORT_MAX:
        raise _refused(text, option)
    return Endpoint(host, int(port))


def listener_options(listen: str | None, advertise: str | None) -> list[Assignment]:
    """Return what `--listen` and `--advertise` set. Errors: CliError."""
    given = []
    if listen is not None:
        at = parse_endpoint(listen, "--listen")
        given.append(Assignment("host", at.host, f"--listen {listen}"))
        given.append(Assignment("port", at.port, f"--listen {listen}"))
    if advertise is not None:
        at = parse_endpoint(advertise, "--advertise")
        given.append(Assignment("advertised.host", at.host, f"--advertise {advertise}"))
        given.append(Assignment("advertised.port", at.port, f"--advertise {advertise}"))
    return given


def _refused(text: str, option: str) -> CliError:
    return CliError(
        f"{text!r} is no address",
        place=option,
        remedy="HOST:PORT, as 127.0.0.1:9092, :9092 for all addresses, or [::1]:9092",
        code=Exit.USAGE,
    )
