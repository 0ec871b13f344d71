"""Which doors of a process others could walk in by: reachable, and nobody is asked who it is. Pure.

A process listens on loopback by default. On any other address a port that asks for no
authentication is refused at the start, unless `insecure.listeners` says that the network itself
lets nobody in.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

from tailrace.core.runtime.config import ConfigError, setting

SETTING: Final = "insecure.listeners"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExposureConfig:
    """Whether a process may be open to its network."""

    is_insecure: bool = setting(
        SETTING,
        False,
        "Listen without authentication on addresses that other machines reach: whoever reaches "
        "them may do everything. For networks that let nobody else in, as that of a test.",
    )


class Door(NamedTuple):
    """One listening socket."""

    setting: str
    """Setting and value that open it, as `listeners=PLAINTEXT://0.0.0.0:9092`."""
    host: str
    """Where it listens; empty is everywhere."""
    is_guarded: bool
    """Whether everybody has to prove who it is."""
    remedy: str
    """What would guard it, as a user would write it."""


class OpenDoors(ConfigError):
    """Doors that are open to the network. `remedy`: the lines that would mend it."""

    def __init__(self, doors: list[Door]) -> None:
        places = ", ".join(door.setting for door in doors)
        super().__init__(
            f"{places}: other machines reach it, and it asks nobody for authentication"
        )
        self.remedy = f"{doors[0].remedy}\n   or: --insecure ({SETTING}=true): {_MEANING}"


_MEANING: Final = "whoever reaches it may do everything"


def is_loopback(host: str) -> bool:
    """Return whether an address is reached from its own machine only. Names are not looked up."""
    import ipaddress  # 10 ms, for those who listen elsewhere

    name = host.lower().rstrip(".")
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(name.partition("%")[0]).is_loopback
    except ValueError:
        return False


def open_doors(doors: Iterable[Door]) -> list[Door]:
    """Return those that others reach without saying who they are."""
    return [each for each in doors if not (each.is_guarded or is_loopback(each.host))]
