"""Responses that say an error in all the places where Kafka would say it. Pure.

A response mirrors its request: what the request lists (topics, partitions, groups, keys), the
response lists with an error each. So it is made from the request by one walk over the fields of the
response; a table has the lists that are named differently.
Source: AbstractRequest.getErrorResponse of each API; Kafka 4.3.1 common/message/*.json.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final

from tailrace.faults.requests import (
    MessageClass,
    element_of,
    names_partitions,
    names_topics,
    topic_lists,
)
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.kafka.api import Api
from tailrace.protocol.kafka.apis import FETCH, METADATA
from tailrace.protocol.kafka.messages.metadata import MetadataResponse

_CODES: Final = ("error_code", "partition_error_code")
_MIRRORED: Final[Mapping[str, Sequence[str]]] = {
    "responses": ("topic_data", "topics", "topic_names", "resources"),
    "partition_responses": ("partition_data",),
    "partitions": ("partitions", "partition_indexes"),
    "coordinators": ("coordinator_keys",),
    "groups": ("groups", "group_ids"),
    "results": (
        *("topics", "groups_names", "resources", "feature_updates", "users", "creations"),
        *("upsertions", "deletions"),
    ),
    "filter_results": ("filters",),
    "results_by_transaction": ("transactions",),
    "topic_results": ("topics",),
    "results_by_topic_v3_and_below": ("v3_and_below_topics",),
    "results_by_partition": ("partitions",),
    "replica_election_results": ("topic_partitions",),
    "partition_result": ("partitions",),
    "transaction_states": ("transactional_ids",),
}
"""List of a response -> the lists of requests that it answers; else they have one name."""
_IDENTITIES: Final[Mapping[str, Sequence[str]]] = {
    "name": (), "topic": (), "topic_id": (), "key": (), "group_id": (), "transactional_id": (),
    "member_id": (), "group_instance_id": (), "producer_id": (), "index": (),
    "resource_type": (), "resource_name": (), "entity": (), "feature": (),
    "partition": (), "partition_index": ("partition",), "partition_id": ("partition",),
    "user": ("name",),
}  # fmt: skip
"""Fields that say what an element is about, and what the request may call them."""
_NUMBERS: Final = ("index", "partition", "partition_index", "partition_id", "producer_id")
"""Identities that are numbers; all others are words."""
_NOTHING: Final = frozenset(
    {"base_offset", "high_watermark", "offset", "timestamp", "committed_offset", "generation_id",
     "producer_id", "producer_epoch", "end_offset", "leader_epoch", "node_id", "port",
     "low_watermark", "controller_id"}
)  # fmt: skip
"""Fields that are -1 where there is an error."""
_SESSION_ERRORS: Final = (
    ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
    ErrorCode.INVALID_FETCH_SESSION_EPOCH,
    ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
)
"""Of a fetch as a whole; clients expect all others at the partitions."""


def failed(api: Api[Any, Any], request: Any, code: ErrorCode, *, whole: bool) -> Any:
    """Return the response that says `code` of all that a request lists.

    `whole`: of the request, its groups and topics as well; else only where nothing is below.
    """
    response = _mirror(api.response, request, code, whole=whole, is_element=False)
    if api.key == FETCH.key and code not in _SESSION_ERRORS:
        response.error_code = ErrorCode.NONE
    return response


@cache
def fails_by_topic(api: Api[Any, Any]) -> bool:
    """Tell whether one topic of a request may fail while others do not."""
    return names_topics(api) and any(map(_says_errors, topic_lists(api.response)))


@cache
def fails_by_partition(api: Api[Any, Any]) -> bool:
    """Tell whether one partition of a request may fail while others do not."""
    return fails_by_topic(api) and (api.key == METADATA.key or names_partitions(api))


def joined(real: Any, other: Any) -> Any:
    """Return a response with the elements of both; what is said of the whole is `real`'s."""
    changes: dict[str, Any] = {}
    for field in dataclasses.fields(real):
        more = getattr(other, field.name)
        if element_of(real.__class__, field.name) is not None and more:
            changes[field.name] = _joined_lists(getattr(real, field.name) or (), more)
    return dataclasses.replace(real, **changes)


def spoil_metadata(
    response: MetadataResponse, topic: str | None, partition: int | None, code: ErrorCode
) -> None:
    """Put an error into a Metadata response, at topics or, if one is given, at a partition."""
    for each in response.topics:
        if topic not in (None, each.name):
            continue
        if partition is None:
            each.error_code, each.partitions = code, ()
        for found in each.partitions:
            if found.partition_index == partition:
                found.error_code, found.leader_id = code, -1


def _joined_lists(real: Sequence[Any], other: Sequence[Any]) -> list[Any]:
    found = {_identity(each): at for at, each in enumerate(real)}
    result = list(real)
    for each in other:
        at = found.get(_identity(each))
        if at is None:
            result.append(each)
        else:
            result[at] = joined(result[at], each)
    return result


def _identity(element: Any) -> tuple[Any, ...]:
    """Return what tells elements of a list apart: of a topic its id, where it has one."""
    names = [field.name for field in dataclasses.fields(element) if field.name in _IDENTITIES]
    if any(getattr(element, "topic_id", b"")):
        names = ["topic_id"]
    return tuple(getattr(element, name) for name in names)


def _mirror(
    kind: MessageClass, source: Any, code: ErrorCode, *, whole: bool, is_element: bool
) -> Any:
    values: dict[str, Any] = {}
    says_below = False
    for field in dataclasses.fields(kind):
        name, element = field.name, element_of(kind, field.name)
        if is_element and name in _IDENTITIES:
            values |= _named(name, source)
        elif name in _NOTHING:
            values[name] = -1
        elif element is not None and _says_errors(element):
            values[name] = [
                _mirror(element, each, code, whole=whole, is_element=True)
                for each in _listed(name, source)
            ]
            says_below = says_below or bool(values[name])
    if whole or not says_below:
        values |= dict.fromkeys(set(_CODES) & set(kind.__slots__), code)
    return kind(**values)


def _named(name: str, source: Any) -> dict[str, Any]:
    """Return what an element is about, if `source` says it under that name or is it itself."""
    if not dataclasses.is_dataclass(source):
        return {name: source} if _is_of_kind(name, source) else {}
    for each in (name, *_IDENTITIES[name]):
        if hasattr(source, each):
            return {name: getattr(source, each)}
    return {}


def _is_of_kind(name: str, scalar: Any) -> bool:
    return isinstance(scalar, int) == (name in _NUMBERS)


def _listed(name: str, source: Any) -> Sequence[Any]:
    lists = (getattr(source, each, None) for each in _MIRRORED.get(name, (name,)))
    return tuple(element for found in lists for element in found or ())


@cache
def _says_errors(element: MessageClass) -> bool:
    """Tell whether an element, or one in it, has a place for an error."""
    if any(name in element.__slots__ for name in _CODES):
        return True
    inner = (element_of(element, field.name) for field in dataclasses.fields(element))
    return any(_says_errors(each) for each in inner if each is not None)
