"""From which broker a consumer with a `client.rack` reads a partition (KIP-392).

The leader sends it to the broker of its rack that `Routes.readers` names, and which Metadata shows
among the replicas: Java's consumer takes no other broker. That one reads for the consumers of its
own rack only: others did not get there by a leader's word, but by old metadata.
Source: ReplicaManager.findPreferredReadReplica, RackAwareReplicaSelector, FetchParams.
"""

from collections.abc import Callable
from functools import partial

from tailrace.broker.context import RequestContext
from tailrace.broker.fetching.sources import Sources
from tailrace.broker.fetching.target import NO_REPLICA, Target
from tailrace.broker.following.directions import Consumer
from tailrace.broker.following.readers import OwnAndFollowed
from tailrace.broker.handlers._places import broker_place
from tailrace.protocol.kafka.messages.fetch import FetchRequest

RACKS_SINCE = 11
"""Version whose requests say where the client is."""


def sources(ctx: RequestContext, request: FetchRequest) -> Sources:
    """Return where the partitions of a fetch are read from."""
    broker = ctx.broker
    rack = _rack(ctx, request)
    if rack and rack == broker.config.rack:
        return OwnAndFollowed(broker.partitions, broker.followed)
    return broker.partitions


def chooser(ctx: RequestContext, request: FetchRequest) -> Callable[[Target], int] | None:
    """Return what chooses the brokers that a consumer is sent to; None: it is not sent away."""
    rack = _rack(ctx, request)
    if not rack or rack == ctx.broker.config.rack or rack not in ctx.broker.routes.live.racks:
        return None
    return partial(_choose, ctx, rack)


def _rack(ctx: RequestContext, request: FetchRequest) -> str:
    """Return the rack of a consumer that may read from a follower; else an empty text."""
    is_consumer = request.replica_id < 0 and request.replica_state.replica_id < 0
    may = ctx.broker.config.serves_racks and ctx.header.api_version >= RACKS_SINCE and is_consumer
    return request.rack_id if may else ""


def _choose(ctx: RequestContext, rack: str, target: Target) -> int:
    broker, topic, index = ctx.broker, target.topic, target.asked.partition
    if topic is None:
        return NO_REPLICA
    reader = broker.routes.readers(topic, index).get(rack, NO_REPLICA)
    if reader in (NO_REPLICA, broker.node_id) or not broker_place(ctx, reader):
        return NO_REPLICA
    consumer = Consumer(ctx.connection.host, ctx.connection.port, topic.topic_id, index)
    if not broker.directions.may_send(consumer, broker.clock.monotonic_s()):
        broker.followed.metrics.kept_total += 1
        return NO_REPLICA
    broker.followed.metrics.sent_total += 1
    return reader
