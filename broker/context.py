"""What a handler knows about the request it answers."""

from typing import NamedTuple

from broker.broker import Broker
from protocol.kafka.header import RequestHeader


class ConnectionInfo(NamedTuple):
    """Who asks; one per connection."""

    host: str
    """The client's address."""
    port: int
    listener: str
    """Name of the listener it came in by."""


class RequestContext(NamedTuple):
    """One request: the broker it is for, its header, its connection."""

    broker: Broker
    header: RequestHeader
    connection: ConnectionInfo
