"""What a handler knows about the request it answers."""

from typing import TYPE_CHECKING

import msgspec

from broker.broker import Broker
from broker.listeners import ConnectionInfo
from core.runtime.loop_turns import Pace
from protocol.kafka.header import RequestHeader

if TYPE_CHECKING:
    from broker.quotas.request_quota import RequestQuota


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
