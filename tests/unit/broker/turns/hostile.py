"""Requests that are valid, small, and as much work as one can ask for: made from the messages.

For each array of an API's request there are two: one that names `MANY` things, each another, and
one that names the same thing so often. A new API, or a new array of one, needs no case of its own.
"""

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from tailrace.protocol.kafka.api import Api
from tailrace.protocol.kafka.primitives import Kind
from tailrace.protocol.kafka.wire import Array, Wire
from tailrace.protocol.records.record import Record, build_batch

MANY: Final = 12_000
"""Far above what a turn of the loop may do, however little each costs: see `CALLS_MAX`."""
TOPIC: Final = "t"
PARTITIONS: Final = 4
_BATCH: Final = bytes(build_batch([Record(offset=0, timestamp=0, key=None, value=b"v")]))


class Place(NamedTuple):
    """Where a value stands."""

    number: int
    """Of the element of the long array that it is in."""
    is_same: bool
    """Whether all elements name the same, which is there."""
    topic_id: bytes
    """Of the topic that is there."""
    count: int
    """Elements of the long array."""


def _name(at: Place) -> str:
    return TOPIC if at.is_same else f"n{at.number}"


def _partition(at: Place) -> int:
    return at.number % PARTITIONS if at.is_same else at.number


_VALUES: Final[Mapping[str, Callable[[Place], Any]]] = {
    "name": _name,
    "topic": _name,
    "resource_name": _name,
    "configuration_keys": _name,
    "topic_id": lambda at: at.topic_id if at.is_same else at.number.to_bytes(16, "big"),
    "partition": _partition,
    "partitions": _partition,
    "partition_index": _partition,
    "partition_indexes": _partition,
    "index": _partition,
    "group_id": lambda at: "g" if at.is_same else f"g{at.number}",
    "member_id": lambda at: "" if at.is_same else f"m{at.number}",
    "member_epoch": lambda _: -1,
    "generation_id": lambda _: -1,
    "generation_id_or_member_epoch": lambda _: -1,
    "broker_ids": lambda at: 1 if at.is_same else at.number,
    "replicas": lambda at: 1 if at.is_same else at.number,
    "count": lambda at: PARTITIONS + 1 + at.number,
    "num_partitions": lambda _: 1,
    "replication_factor": lambda _: 1,
    "resource_type": lambda _: 2,  # topics
    "timestamp": lambda _: -1,  # the latest
    "records": lambda _: _BATCH,
    "acks": lambda _: -1,
    "timeout_ms": lambda _: 5_000,
    "max_bytes": lambda _: 1 << 20,
    "partition_max_bytes": lambda _: 1 << 20,
    "session_timeout_ms": lambda _: 10_000,
    "rebalance_timeout_ms": lambda _: 10_000,
    "session_epoch": lambda _: -1,
    "entity_type": lambda at: "client-id" if at.is_same else f"e{at.number}",
    "entity_name": lambda at: None if at.is_same else f"c{at.number}",
    "key": lambda at: "request_percentage" if at.is_same else f"k{at.number}",
    "protocol_type": lambda _: "consumer",
    "protocol_name": lambda _: "range",
    "endpoint_type": lambda _: 1,
    "validate_only": lambda _: True,
    "transactional_id": lambda at: "x" if at.is_same else f"x{at.number}",
    "group_instance_id": lambda _: None,
    "client_software_name": lambda _: "a" * 30_000,
    "client_software_version": lambda _: "-" * 30_000 + "1",
    "response_partition_limit": lambda _: 1 << 30,
}
"""By a field's name; what is not here is zero, empty or null. An array's name stands for its
elements."""

_LEFT_OUT: Final = frozenset({"assignments", "configs", "ops", "forgotten_topics_data"})
"""Arrays that are empty unless they are the long one."""


def hostile_requests(
    api: Api[Any, Any], version: int, topic_id: bytes, count: int = MANY
) -> Iterator[tuple[str, Any]]:
    """Yield the requests of one version, which name `count` things, with names for people."""
    paths = list(_paths(api.request, version)) or [()]
    for path in paths:
        for is_same in (False, True):
            kind = "the same" if is_same else "different"
            label = f"{'.'.join(path) or 'no array'}, {kind}"
            yield label, _build(api.request, version, path, Place(0, is_same, topic_id, count))


def _paths(message: type[Any], version: int) -> Iterator[tuple[str, ...]]:
    """Yield the way to each array that a version has."""
    for field in dataclasses.fields(message):
        spec: Wire = field.metadata["wire"]
        if not spec.present(version) or not isinstance(spec.kind, Array) or spec.tag is not None:
            continue
        yield (field.name,)
        if isinstance(spec.kind.element, type):
            for rest in _paths(spec.kind.element, version):
                yield (field.name, *rest)


def _build(message: type[Any], version: int, path: tuple[str, ...], at: Place) -> Any:
    values = {}
    for field in dataclasses.fields(message):
        spec: Wire = field.metadata["wire"]
        if not spec.present(version) or spec.tag is not None:
            continue
        if isinstance(spec.kind, Array):
            is_long = path == (field.name,)
            is_left_out = not path and field.name in _LEFT_OUT
            if path and path[0] != field.name:
                continue
            count = at.count if is_long else 0 if is_left_out else 1
            rest = () if is_long else path[1:]
            values[field.name] = [
                _element(spec.kind.element, field.name, version, rest, at, number)
                for number in (range(count) if is_long else [at.number] * count)
            ]
        elif isinstance(spec.kind, Kind) and field.name in _VALUES:
            values[field.name] = _VALUES[field.name](at)
    return message(**values)


def _element(
    element: Kind | type[Any],
    name: str,
    version: int,
    path: tuple[str, ...],
    at: Place,
    number: int,
) -> Any:
    at = at._replace(number=number)
    if isinstance(element, Kind):
        default = f"n{number}" if isinstance(element.default, str) else number % 100
        return _VALUES[name](at) if name in _VALUES else default
    return _build(element, version, path, at)
