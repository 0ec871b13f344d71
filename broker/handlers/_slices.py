"""Requests about many partitions, one part after the other: a part is what a group does in one go.

Each part is allowed, stored and answered on its own, so a crash, or a change between two,
may leave the parts behind it undone: they say so at their partitions, as Kafka's commits do.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final, Protocol, TypeVar

AT_ONCE: Final = 100
"""Partitions of one part."""


class OfPartitions(Protocol):
    """A topic of a request, or of an answer."""

    partitions: Sequence[Any]


T = TypeVar("T", bound=OfPartitions)


def is_long(topics: Sequence[OfPartitions]) -> bool:
    """Whether a request names more than one part."""
    return len(topics) > AT_ONCE or sum(len(topic.partitions) for topic in topics) > AT_ONCE


def parts(topics: Iterable[T]) -> Iterator[list[T]]:
    """Yield the topics in parts of `AT_ONCE` partitions, in order; a topic may be cut."""
    part: list[T] = []
    room = AT_ONCE
    for topic in topics:
        count = len(topic.partitions)
        for start in range(0, max(count, 1), AT_ONCE):
            cut: Any = topic  # a dataclass, which a Protocol cannot say
            if count > AT_ONCE:
                cut = replace(cut, partitions=topic.partitions[start : start + AT_ONCE])
            if part and room < max(len(cut.partitions), 1):
                yield part
                part, room = [], AT_ONCE
            part.append(cut)
            room -= max(len(cut.partitions), 1)
    if part:
        yield part


def join(topics: list[T], more: Iterable[T]) -> None:
    """Add the answers of a part to those before; a topic that was cut is one again.

    It is among the answers of the part before, in which those that were refused come first.
    """
    before: dict[object, Any] = {_name(topic): topic for topic in topics[-AT_ONCE:]}
    for topic in more:
        last = before.get(_name(topic))
        if last is not None:
            last.partitions = [*last.partitions, *topic.partitions]
        else:
            topics.append(topic)


def _name(topic: Any) -> object:
    return topic.name, getattr(topic, "topic_id", None)
