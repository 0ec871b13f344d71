"""`--test-faults HOST:PORT`: where tests break a broker on purpose."""

from typing import TYPE_CHECKING

from tailrace.tools.endpoints import parse_endpoint
from tailrace.tools.errors import CliError, Exit

if TYPE_CHECKING:
    from tailrace.faults.control import FaultControl

OPTION = "--test-faults"


def fault_control(place: str | None) -> "FaultControl | None":
    """Return what opens that port; None if there is to be none.

    Errors: CliError unless it is on an address that only this machine reaches.
    """
    if place is None:
        return None
    import ipaddress  # these two take 20 ms that only a test pays for

    from tailrace.faults.control import FaultControl

    at = parse_endpoint(place, OPTION, default_port=0)
    host = "127.0.0.1" if at.host == "localhost" else at.host
    try:
        is_loopback = ipaddress.ip_address(host).is_loopback
    except ValueError:
        is_loopback = False
    if not is_loopback:
        raise CliError(
            f"{place!r} is no loopback address: whoever reaches that port can break this broker",
            place=OPTION,
            remedy="127.0.0.1:0, which picks a free port",
            code=Exit.USAGE,
        )
    return FaultControl(host, at.port)
