"""HOST:PORT on the command line, and what it sets. Pure."""

from tailrace.broker.listeners import PORT_MAX, Endpoint, Listener
from tailrace.core.runtime.config import Assignment
from tailrace.tools.errors import CliError, Exit


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


def listener_options(
    listen: str | None, advertise: str | None, name: str = "PLAINTEXT"
) -> list[Assignment]:
    """Return what `--listen` and `--advertise` set, of a listener of a name. Errors: CliError."""
    given = []
    if listen is not None:
        given.append(_assignment("listeners", listen, "--listen", name))
    if advertise is not None:
        given.append(_assignment("advertised.listeners", advertise, "--advertise", name))
    return given


def _assignment(setting: str, text: str, option: str, name: str) -> Assignment:
    """Return a setting: HOST:PORT is for the listener of that name, NAME://... goes as it is."""
    if "://" in text:
        return Assignment(setting, text, f"{option} {text}")
    listener = Listener(name, *parse_endpoint(text, option))
    return Assignment(setting, str(listener), f"{option} {text}")


def _refused(text: str, option: str) -> CliError:
    return CliError(
        f"{text!r} is no address",
        place=option,
        remedy="HOST:PORT, as 127.0.0.1:9092, :9092 for all addresses, or [::1]:9092",
        code=Exit.USAGE,
    )
