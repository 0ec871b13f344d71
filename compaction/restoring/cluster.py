"""What a restore asks a cluster: the topic and who leads, where partitions begin and end."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from tailrace.compaction.restoring.connection import Connection
from tailrace.compaction.restoring.errors import Refused, TopicGone, Transient, check, is_gone
from tailrace.core.runtime.decimal_text import decimal
from tailrace.core.runtime.kafka_connection import Entrance
from tailrace.protocol.ids import Offset
from tailrace.protocol.kafka.apis import LIST_OFFSETS, METADATA
from tailrace.protocol.kafka.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from tailrace.protocol.kafka.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponseTopic,
)

_PORT_MAX = (1 << 16) - 1
EARLIEST = -2
LATEST = -1
READ_COMMITTED = 1


class Address(NamedTuple):
    """Where a broker listens."""

    host: str
    port: int
    entrance: Entrance | None = None
    """TLS and SASL, if it asks for them."""


class Topic(NamedTuple):
    """A topic as the cluster shows it now."""

    name: str
    id: bytes
    """All zeros if the cluster has no topic ids."""
    leaders: Mapping[int, Address | None]
    """Partition -> its leader; None while it has none."""


class Bounds(NamedTuple):
    """Where a partition begins, and where what is committed ends (exclusive)."""

    start: Offset
    end: Offset


def parse_bootstrap(text: str, entrance: Entrance | None = None) -> list[Address]:
    """Read `HOST:PORT,HOST:PORT`. Errors: Refused."""
    found = []
    for part in text.split(","):
        host, _, port = part.strip().rpartition(":")
        number = decimal(port, _PORT_MAX, least=1)
        if number is None:
            raise Refused(f"{part!r} is not HOST:PORT", place="bootstrap")
        found.append(Address(host.strip("[]") or "127.0.0.1", number, entrance))
    return found


def find_topic(bootstrap: Sequence[Address], name: str, timeout_s: float) -> Topic:
    """Ask the first broker that answers for a topic.

    Errors: TopicGone; Transient when nobody answers, or partitions have no leader now.
    """
    lost: list[Transient] = []
    for address in bootstrap:
        try:
            return _ask_topic(address, name, timeout_s)
        except Transient as error:
            lost.append(error)
    raise lost[-1]


def bounds(topic: Topic, partitions: Iterable[int], timeout_s: float) -> dict[int, Bounds]:
    """Return start and last stable offset of partitions. Errors: Transient, RestoreError."""
    found: dict[int, Bounds] = {}
    for address, some in by_leader(topic, partitions).items():
        connection = Connection(address.host, address.port, timeout_s, address.entrance)
        try:
            starts = _list_offsets(connection, topic.name, some, EARLIEST)
            ends = _list_offsets(connection, topic.name, some, LATEST)
        finally:
            connection.close()
        found |= {each: Bounds(starts[each], ends[each]) for each in some}
    return found


def by_leader(topic: Topic, partitions: Iterable[int]) -> dict[Address, list[int]]:
    """Return the partitions that each broker leads. Errors: Transient for one without leader."""
    led: dict[Address, list[int]] = {}
    for partition in partitions:
        leader = topic.leaders.get(partition)
        if leader is None:
            raise Transient("has no leader", f"{topic.name}-{partition}")
        led.setdefault(leader, []).append(partition)
    return led


def _ask_topic(address: Address, name: str, timeout_s: float) -> Topic:
    connection = Connection(address.host, address.port, timeout_s, address.entrance)
    try:
        wanted = [MetadataRequestTopic(name=name)]
        answer = connection.ask(
            METADATA, MetadataRequest(topics=wanted, allow_auto_topic_creation=False)
        )
    finally:
        connection.close()
    (found,) = answer.topics
    if is_gone(found.error_code):
        raise TopicGone(
            f"there is no topic {name}",
            place=connection.place,
            remedy="`tailrace topic list` shows those that are",
        )
    check(found.error_code, f"{name} at {connection.place}")
    way_in = address.entrance
    nodes = {each.node_id: Address(each.host, each.port, way_in) for each in answer.brokers}
    return Topic(name, found.topic_id, _leaders(found, nodes))


def _leaders(
    topic: MetadataResponseTopic, nodes: Mapping[int, Address]
) -> dict[int, Address | None]:
    return {each.partition_index: nodes.get(each.leader_id) for each in topic.partitions}


def _list_offsets(
    connection: Connection, topic: str, partitions: Sequence[int], timestamp: int
) -> dict[int, Offset]:
    asked = [ListOffsetsPartition(partition_index=each, timestamp=timestamp) for each in partitions]
    request = ListOffsetsRequest(
        replica_id=-1,
        isolation_level=READ_COMMITTED,
        topics=[ListOffsetsTopic(name=topic, partitions=asked)],
        timeout_ms=30_000,
    )
    found = {}
    for answered in connection.ask(LIST_OFFSETS, request).topics:
        for each in answered.partitions:
            check(each.error_code, f"{topic}-{each.partition_index} at {connection.place}")
            found[each.partition_index] = each.offset
    missing = set(partitions) - set(found)
    if missing:
        raise Transient(f"no answer for partitions {sorted(missing)}", connection.place)
    return found
