"""Topic names: what is allowed, what collides, and the log stream behind each partition. Pure.

Source: org.apache.kafka.common.internals.Topic.
"""

import re
from typing import NamedTuple

from tailrace.core.runtime.decimal_text import INT32_MAX

NAME_LENGTH_MAX = 249
INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
CLUSTER_METADATA_TOPIC = "__cluster_metadata"
"""Kafka's controllers keep theirs there; a topic of that name would pass for it."""

_PARTITION = re.compile(r"(.+)-(0|[1-9][0-9]{0,9})", re.DOTALL)
_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")


def name_fault(name: str) -> str | None:
    """Return why a topic cannot have this name, in Kafka's words; None when it can."""
    if not name:
        fault = "the empty string is not allowed"
    elif name in (".", ".."):
        fault = f"'{name}' is not allowed"
    elif len(name) > NAME_LENGTH_MAX:
        fault = f"the length of '{name}' is longer than the max allowed length {NAME_LENGTH_MAX}"
    elif not _LEGAL.fullmatch(name):
        fault = (
            f"'{name}' contains one or more characters other than ASCII alphanumerics, "
            "'.', '_' and '-'"
        )
    else:
        return None
    return f"Topic name is invalid: {fault}"


def collision_key(name: str) -> str:
    """Return the form in which two names collide: metrics cannot tell '.' from '_'."""
    return name.replace(".", "_")


def stream_name(topic: str, partition: int) -> str:
    """Return the log stream of a partition.

    Unique: the partition is what follows the last dash. DistributedLog allows no leading dot and
    no percent sign, and topics have no percent sign, so the escape cannot meet a real name.
    """
    safe = f"%2E{topic[1:]}" if topic.startswith(".") else topic
    return f"{safe}-{partition}"


class Partition(NamedTuple):
    """Whose log stream one is."""

    topic: str
    number: int


def partition_of(stream: str) -> Partition | None:
    """Return the partition that a log stream is of, by its name: `stream_name` backwards.

    None: no partition of any topic has this stream.
    """
    found = _PARTITION.fullmatch(stream)
    if found is None or int(found[2]) > INT32_MAX:
        return None
    safe = found[1]
    topic = f".{safe[3:]}" if safe.startswith("%2E") else safe
    if name_fault(topic) or safe.startswith("."):
        return None
    return Partition(topic, int(found[2]))
