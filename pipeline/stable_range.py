"""Where a topic's partitions begin, and where what is committed ends, asked once."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

from confluent_kafka import IsolationLevel, KafkaException, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # half typed
    AdminClient,
    OffsetSpec,
)

from tailrace.core.access.client.command_config import client_settings as read_settings
from tailrace.core.access.client.confluent import confluent_settings

_EARLIEST = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
_LATEST = OffsetSpec.latest()  # type: ignore[no-untyped-call]


class NoTopic(Exception):
    """The topic cannot be asked for; the message says why."""


class StableRange(NamedTuple):
    """Offsets of one partition: from `start` to before `end`, the last stable offset."""

    start: int
    end: int


def stable_ranges(
    bootstrap: str,
    topic: str,
    timeout_s: float,
    client_settings: Mapping[str, str] | Path | None = None,
) -> dict[int, StableRange]:
    """Return the range of each partition as it is now.

    `client_settings`: for TLS and SASL, as `kafka_options` takes them. Errors: NoTopic for one that
    does not exist, or when no broker answers in time; ConfigError.
    """
    client = AdminClient(
        {
            **confluent_settings(read_settings(client_settings)),
            "bootstrap.servers": bootstrap,
            "client.id": "tailrace-pipeline",
            "log_level": 0,
        }
    )
    try:
        found = client.list_topics(topic, timeout=timeout_s).topics[topic]
        if found.error is not None:
            raise NoTopic(f"topic {topic}: {found.error.str()}")
        starts = _offsets(client, topic, list(found.partitions), _EARLIEST, timeout_s)
        ends = _offsets(client, topic, list(found.partitions), _LATEST, timeout_s)
    except KafkaException as error:
        raise NoTopic(f"topic {topic} at {bootstrap}: {error.args[0].str()}") from error
    return {each: StableRange(starts[each], ends[each]) for each in sorted(found.partitions)}


def bounds_json(
    topic: str, ranges: Mapping[int, StableRange], which: Literal["start", "end"]
) -> str:
    """Return one end of the ranges as Spark's source takes it."""
    return json.dumps({topic: {str(each): getattr(at, which) for each, at in ranges.items()}})


def _offsets(
    client: Any, topic: str, partitions: list[int], spec: Any, timeout_s: float
) -> dict[int, int]:
    asked = client.list_offsets(
        {TopicPartition(topic, each): spec for each in partitions},
        isolation_level=IsolationLevel.READ_COMMITTED,
        request_timeout=timeout_s,
    )
    return {at.partition: future.result(timeout_s).offset for at, future in asked.items()}
