"""The brokers that are registered, as one broker saw them last. Pure.

Made of the registrations of all (Kafka's JSON, `registration`), replaced when one comes or goes.
"""

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import NamedTuple

from tailrace.broker.cluster.registration import BrokerNode
from tailrace.broker.listeners import Endpoint, parse_listeners
from tailrace.core.errors import CorruptData


class LiveBroker(NamedTuple):
    """One broker that is there."""

    node_id: int
    endpoints: Mapping[str, Endpoint]
    """Where clients of each listener reach it."""
    inter_broker: Endpoint
    """Where other brokers do."""
    rack: str | None

    def endpoint(self, listener: str | None = None) -> Endpoint | None:
        """Return where clients of a listener reach it, None if it lacks that; where brokers do."""
        return self.inter_broker if listener is None else self.endpoints.get(listener)


class LiveBrokers:
    """Who is there; replaced, never changed."""

    def __init__(self, brokers: Iterable[LiveBroker]) -> None:
        self._by_id = {each.node_id: each for each in brokers}
        self.ids: tuple[int, ...] = tuple(sorted(self._by_id))

    @cached_property
    def racks(self) -> Mapping[str, tuple[int, ...]]:
        """The brokers of each rack, by id."""
        racks: dict[str, tuple[int, ...]] = {}
        for each in self.all():
            if each.rack:
                racks[each.rack] = (*racks.get(each.rack, ()), each.node_id)
        return racks

    @property
    def controller_id(self) -> int:
        """The broker that clients are told to ask for changes; -1 while nobody is there.

        Every broker can do what Kafka's controller does. One that all agree on has changes of one
        topic that come at the same moment run one after the other.
        """
        return self.ids[0] if self.ids else -1

    def get(self, node_id: int) -> LiveBroker | None:
        """Return a broker that is there."""
        return self._by_id.get(node_id)

    def all(self) -> list[LiveBroker]:
        """Return all, by id."""
        return [self._by_id[node_id] for node_id in self.ids]

    def with_broker(self, broker: LiveBroker) -> "LiveBrokers":
        """Return them with one that came, or that came back as another."""
        return LiveBrokers([*self._by_id.values(), broker])

    def without(self, node_id: int) -> "LiveBrokers":
        """Return them without one that went."""
        return LiveBrokers(each for each in self._by_id.values() if each.node_id != node_id)


def live_broker(node_id: int, node: BrokerNode) -> LiveBroker:
    """Return what a registration says. Errors: CorruptData."""
    try:
        listeners = parse_listeners(node.endpoints, "endpoints")
    except ValueError as error:
        raise CorruptData(f"the registration of broker {node_id}: {error}") from error
    endpoints = {each.name: Endpoint(each.host, each.port) for each in listeners}
    return LiveBroker(node_id, endpoints, Endpoint(node.host, node.port), node.rack)
