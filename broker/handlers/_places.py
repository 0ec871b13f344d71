"""Where brokers and partitions are, as a client sees it that came in by one listener."""

from collections.abc import Container, Iterable, Iterator
from typing import NamedTuple

from tailrace.broker.cluster.topic import Topic
from tailrace.broker.context import RequestContext

NO_LEADER = -1


class BrokerPlace(NamedTuple):
    """A broker that is alive and can be reached by the client's listener."""

    node_id: int
    host: str
    port: int
    rack: str | None


class PartitionPlace(NamedTuple):
    """Who serves a partition."""

    leader_id: int
    """`NO_LEADER` where the client cannot reach the one that leads."""
    leader_epoch: int
    """-1 where it is not known: only the owner knows it."""
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline: tuple[int, ...]


def broker_places(ctx: RequestContext) -> list[BrokerPlace]:
    """Return all brokers that the client can reach, by id."""
    return [each for node_id in ctx.broker.routes.live.ids for each in broker_place(ctx, node_id)]


def broker_place(ctx: RequestContext, node_id: int) -> list[BrokerPlace]:
    """Return where the client reaches a broker; nothing where it cannot."""
    broker = ctx.broker
    if node_id == broker.node_id:
        host, port = broker.advertised.to(ctx.connection)
        return [BrokerPlace(node_id, host, port, broker.config.rack or None)]
    found = broker.routes.live.get(node_id)
    at = None if found is None else found.endpoint(ctx.connection.listener)
    if found is None or at is None:
        return []
    return [BrokerPlace(node_id, at.host, at.port, found.rack)]


def partition_places(
    ctx: RequestContext, topic: Topic, indexes: Iterable[int], reachable: Container[int]
) -> Iterator[PartitionPlace]:
    """Yield who serves each of a topic's partitions.

    `reachable`: the brokers that the client can be sent to, of `broker_places`.
    """
    broker, routes = ctx.broker, ctx.broker.routes
    owners = routes.owners(topic)
    for index in indexes:
        owner, epoch = owners[index], -1
        if owner == broker.node_id:
            log = broker.partitions.get((topic.name, index))
            epoch = -1 if log is None else log.leader_epoch
        shown, live = routes.shown_replicas(topic, index)
        offline = tuple(each for each in shown if each not in live)
        leader = owner if owner in reachable else NO_LEADER
        yield PartitionPlace(leader, epoch, shown, live, offline)
