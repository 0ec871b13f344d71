"""What CreateTopics and CreatePartitions ask for, checked as Kafka's controller does. Pure.

Source: org.apache.kafka.controller.ReplicationControlManager.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

from tailrace.broker.cluster.config import TopicsConfig
from tailrace.broker.errors import KafkaError
from tailrace.core.log.config import RECORD_BYTES_MAX, record_bytes_in
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.ids import BookieId

UNSET = -1
"""Number of partitions or replicas that the caller leaves to the broker."""


MAX_MESSAGE_BYTES = "max.message.bytes"
NEW_PARTITIONS_MAX = 10_000
"""Partitions that one request may make."""
_TOO_MANY = "Excessively large number of partitions per request."


class Shape(NamedTuple):
    """How large a topic is to be."""

    partitions: int
    replication_factor: int


class Asked(NamedTuple):
    """What one creation asks for."""

    partitions: int
    replication_factor: int
    assignments: Mapping[int, Sequence[int]]
    """Brokers by partition; empty when the broker chooses."""


class AvailableBookies(Protocol):
    """Who keeps what a broker writes; `core.ledger`'s registries are two."""

    async def available(self) -> Sequence[BookieId]:
        """Return the bookies that can be written to. Errors: CoreError."""

    async def registered(self) -> Sequence[BookieId]:
        """Return those and the ones that are read-only now. Errors: CoreError."""

    def entry_bytes_max(self, bookie_id: BookieId) -> int:
        """Return the largest entry that a bookie takes."""


class Nodes(NamedTuple):
    """Who there is to serve a topic and to keep it."""

    brokers: Sequence[int]
    bookies: int


def shape_of(asked: Asked, defaults: Shape, config: TopicsConfig, nodes: Nodes) -> Shape:
    """Return the size of a new topic. Errors: KafkaError."""
    if asked.assignments:
        partitions, width = _assigned(asked, nodes.brokers)
        return Shape(partitions, _reachable(width, config, nodes.bookies))
    replicas = _or_default(asked.replication_factor, defaults.replication_factor)
    if replicas < 1:
        message = "Replication factor must be larger than 0, or -1 to use the default value."
        raise KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, message)
    partitions = _or_default(asked.partitions, defaults.partitions)
    check_new_partitions(partitions)
    return Shape(partitions, _reachable(replicas, config, nodes.bookies))


def check_ensemble(ensemble_size: int, bookies: int) -> None:
    """Check that an ensemble can be formed. Errors: KafkaError."""
    if ensemble_size > bookies:
        message = (
            f"Unable to spread the partition over {ensemble_size} bookies (tailrace.ensemble.size) "
            f"because only {bookies} bookie(s) are registered."
        )
        raise KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, message)


async def check_batch_size(
    bookies: AvailableBookies, max_message_bytes: int, ensemble_size: int
) -> None:
    """Check that enough registered bookies take a topic's largest batch. Errors: KafkaError.

    What fits into BookKeeper's default frame, every bookie takes.
    """
    if max_message_bytes <= RECORD_BYTES_MAX:
        return
    registered = await bookies.registered()
    takes = {bookie: record_bytes_in(bookies.entry_bytes_max(bookie)) for bookie in registered}
    small = sorted(bookie for bookie, most in takes.items() if most < max_message_bytes)
    if len(takes) - len(small) < ensemble_size:
        message = (
            f"Invalid value {max_message_bytes} for configuration max.message.bytes: a batch of "
            f"that size is stored as one entry on {ensemble_size} bookie(s), and these take "
            f"less ({RECORD_BYTES_MAX} where nettyMaxFrameSizeBytes is BookKeeper's default): "
            + ", ".join(f"{bookie} {takes[bookie]}" for bookie in small)
        )
        raise KafkaError(ErrorCode.INVALID_CONFIG, message)


def check_new_partitions(count: int) -> None:
    """Check how many partitions are to be made. Errors: KafkaError."""
    if count < 1:
        message = "Number of partitions was set to an invalid non-positive value."
        raise KafkaError(ErrorCode.INVALID_PARTITIONS, message)
    if count > NEW_PARTITIONS_MAX:
        raise KafkaError(ErrorCode.POLICY_VIOLATION, _TOO_MANY)


def check_total(counts: Iterable[int], default: int) -> None:
    """Check how many partitions the topics of one request have together. Errors: KafkaError.

    `counts`: as they were asked for; `default`: for those that leave it to the broker.
    """
    asked = [default if count == UNSET else count for count in counts]
    if sum([count for count in asked if count > 0]) > NEW_PARTITIONS_MAX:
        raise KafkaError(ErrorCode.POLICY_VIOLATION, _TOO_MANY)


def check_assignment(replicas: Sequence[int], width: int, brokers: Sequence[int]) -> None:
    """Check the brokers given for one partition. Errors: KafkaError."""
    prefix = "The manual partition assignment includes"
    if not replicas:
        raise _bad_assignment(f"{prefix} an empty replica list.")
    for broker in sorted(replicas):
        if broker not in brokers:
            raise _bad_assignment(f"{prefix} broker {broker}, but no such broker is registered.")
        if replicas.count(broker) > 1:
            raise _bad_assignment(f"{prefix} the broker {broker} more than once.")
    if len(replicas) != width:
        raise _bad_assignment(
            f"{prefix} a partition with {len(replicas)} replica(s), but this is not consistent "
            f"with previous partitions, which have {width} replica(s)."
        )


def check_new_assignments(
    assignments: Sequence[Sequence[int]], new: int, width: int, brokers: Sequence[int]
) -> None:
    """Check the assignments of partitions that are added. Errors: KafkaError.

    `width`: brokers of each partition that is there already.
    """
    if len(assignments) != new:
        raise _bad_assignment(
            f"Attempted to add {new} additional partition(s), but only {len(assignments)} "
            "assignment(s) were specified."
        )
    for replicas in assignments:
        check_assignment(replicas, width, brokers)


def _assigned(asked: Asked, brokers: Sequence[int]) -> Shape:
    for value, what in (
        (asked.replication_factor, "replication factor"),
        (asked.partitions, "numPartitions"),
    ):
        if value != UNSET:
            message = f"A manual partition assignment was specified, but {what} was not set to -1."
            raise KafkaError(ErrorCode.INVALID_REQUEST, message)
    partitions = len(asked.assignments)
    check_new_partitions(partitions)
    if sorted(asked.assignments) != list(range(partitions)):
        raise _bad_assignment("partitions should be a consecutive 0-based integer sequence")
    width = len(asked.assignments[0])
    for partition in range(partitions):
        check_assignment(asked.assignments[partition], width, brokers)
    return Shape(partitions, width)


def _reachable(replicas: int, config: TopicsConfig, bookies: int) -> int:
    if replicas <= bookies:
        return replicas
    if config.above_brokers == "clamp" and bookies:
        return bookies
    message = (
        f"Unable to replicate the partition {replicas} time(s): The target replication factor of "
        f"{replicas} cannot be reached because only {bookies} bookie(s) are registered. "
        "(Set tailrace.replication.factor.above.brokers=clamp to get as many as there are.)"
    )
    raise KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, message)


def _or_default(asked: int, default: int) -> int:
    return default if asked == UNSET else asked


def _bad_assignment(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
