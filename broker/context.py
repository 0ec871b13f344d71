"""What a handler knows about the request it answers."""

from typing import TYPE_CHECKING

import msgspec

from tailrace.broker.broker import Broker
from tailrace.broker.listeners import ConnectionInfo
from tailrace.core.runtime.loop_turns import Pace
from tailrace.protocol.kafka.header import RequestHeader

if TYPE_CHECKING:
    from tailrace.broker.quotas.request_quota import RequestQuota


class RequestContext(msgspec.Struct, frozen=True):
    """One request: the broker it is for, its header, its connection."""

    broker: Broker
    header: RequestHeader
    connection: ConnectionInfo
    quota: "RequestQuota | None" = None
    """What it is charged to; None for a client without quotas."""

    def pace(self) -> Pace:
        """Return what a handler walks through long requests and answers with."""
        return Pace(self.broker.turns)
