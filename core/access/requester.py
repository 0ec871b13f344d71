"""Who asks a door for something."""

from typing import NamedTuple


class Requester(NamedTuple):
    """Who asks, and from where."""

    principal: str
    """TYPE:NAME, as `User:alice`."""
    host: str
    """Address, as a listener saw it."""
