"""What a request names, and the part of it that a fault is for. Pure.

Kafka's messages differ in the names of their lists, not in their shape: elements, perhaps of a
group or a transaction, that name a topic; in each, perhaps, elements or numbers of partitions. So
one walk over the fields does for all APIs. Source: Kafka 4.3.1 common/message/*.json.
"""

import dataclasses
import typing
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any, Final, TypeAlias

from tailrace.protocol.kafka.api import Api

MessageClass: TypeAlias = Any
"""A message's class; as `type[Any]` mypy would not let it be a key of a cache."""
TopicName: TypeAlias = Callable[[bytes], str | None]
"""Finds the name of a topic by its id."""
Wanted: TypeAlias = Callable[[str | None, int | None], bool]
"""Whether a topic and a partition stay; None where the request names no such thing."""

_TOPIC_FIELDS: Final = ("name", "topic")
_PARTITION_LISTS: Final = ("partition_data", "partitions", "partition_indexes")
_INDEX_FIELDS: Final = ("index", "partition_index", "partition")
_OTHER_NAMED: Final = frozenset({"components", "entries", "users", "resources", "protocols"})
"""Lists of things with names that are no topics."""
_BARE_TOPICS: Final = frozenset({"topic_names"})


@cache
def names_topics(api: Api[Any, Any]) -> bool:
    """Tell whether requests of an API name topics."""
    return any(topic_lists(api.request))


@cache
def names_partitions(api: Api[Any, Any]) -> bool:
    """Tell whether requests of an API name partitions, beside what a topic is made of."""
    return any(_partition_list(element) is not None for element in topic_lists(api.request))


def narrowed(request: Any, wanted: Wanted, name_of: TopicName) -> Any | None:
    """Return a request with what is wanted of it; None if that is nothing.

    Cost: copies every list of topics. Nothing of `request` is changed.
    """
    changes: dict[str, Any] = {}
    for field in dataclasses.fields(request):
        listed = getattr(request, field.name)
        if field.name in _BARE_TOPICS:
            changes[field.name] = [each for each in listed if wanted(each, None)]
            continue
        element = element_of(request.__class__, field.name)
        if element is None or not listed or not _leads_to_topics(element, field.name):
            continue
        narrow = _narrowed_topic if _is_topic(element, field.name) else narrowed
        kept = [narrow(each, wanted, name_of) for each in listed]
        changes[field.name] = [each for each in kept if each is not None]
    if not any(changes.values()):
        return None
    return dataclasses.replace(request, **changes)


@cache
def element_of(message: MessageClass, field: str) -> MessageClass | None:
    """Return the class of a list's elements, if they are messages."""
    hint = _hints(message)[field]
    for option in (hint, *typing.get_args(hint)):
        if typing.get_origin(option) is Sequence:
            element: MessageClass = typing.get_args(option)[0]
            return element if dataclasses.is_dataclass(element) else None
    return None


@cache
def _hints(message: MessageClass) -> dict[str, Any]:
    return typing.get_type_hints(message)


def _is_topic(element: MessageClass, field: str) -> bool:
    names = {each.name for each in dataclasses.fields(element)}
    return field not in _OTHER_NAMED and not names.isdisjoint(_TOPIC_FIELDS)


@cache
def _leads_to_topics(element: MessageClass, field: str) -> bool:
    return _is_topic(element, field) or any(topic_lists(element))


def topic_lists(message: MessageClass) -> Iterator[MessageClass]:
    """Yield the classes of the elements in a message that name a topic."""
    for field in dataclasses.fields(message):
        element = element_of(message, field.name)
        if element is None or field.name in _OTHER_NAMED:
            continue
        if _is_topic(element, field.name):
            yield element
        else:
            yield from topic_lists(element)


def _partition_list(topic: MessageClass) -> str | None:
    names = {each.name for each in dataclasses.fields(topic)}
    return next((name for name in _PARTITION_LISTS if name in names), None)


def _narrowed_topic(topic: Any, wanted: Wanted, name_of: TopicName) -> Any | None:
    name = topic_name(topic, name_of)
    field = _partition_list(topic.__class__)
    if field is None:
        return topic if wanted(name, None) else None
    kept = [each for each in getattr(topic, field) or () if wanted(name, _index(each))]
    return dataclasses.replace(topic, **{field: kept}) if kept else None


def topic_name(topic: Any, name_of: TopicName) -> str | None:
    """Return the name of the topic that an element is about; None for an unknown id."""
    for field in _TOPIC_FIELDS:
        if name := getattr(topic, field, None):
            return str(name)
    return name_of(getattr(topic, "topic_id", b""))


def _index(partition: Any) -> int:
    if isinstance(partition, int):
        return partition
    return int(next(getattr(partition, name) for name in _INDEX_FIELDS if hasattr(partition, name)))
