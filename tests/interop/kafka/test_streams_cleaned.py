"""Kafka Streams: a table that is restored from a changelog that our cleaner has cleaned."""

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cleaned import CleanedTopics
from tests.interop.kafka.clients import Kafka
from tests.interop.kafka.test_streams import Application, await_counts, send
from tests.java.peers import JavaClient
from tests.process import TailraceProcess

pytestmark = [pytest.mark.interop, pytest.mark.java]

WORDS = [f"word-{number}" for number in range(40)]


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])
def test_a_table_has_exact_counts_from_a_cleaned_changelog(
    kafka_4: JavaClient,
    broker_factory: Callable[..., TailraceProcess],
    topic: str,
    tmp_path: Path,
    guarantee: str,
) -> None:
    topics = CleanedTopics(broker_factory)
    clients = Kafka(kafka_4, topics.broker)
    for name in (f"{topic}-in", f"{topic}-out"):
        clients.admin("topics.create", topic=name, partitions=1)
    changelog = f"{topic}-app-counts-changelog"
    topics.create(changelog)
    drawn = random.Random(guarantee)
    lines = [" ".join(drawn.choices(WORDS, k=10)) for _ in range(300)]
    counts = Counter(word for line in lines for word in line.split())
    config: dict[str, Any] = {
        "processing.guarantee": guarantee,
        "statestore.cache.max.bytes": 0,  # so that every change of a count is in the changelog
    }
    application = Application(kafka_4, topics.broker, topic, tmp_path)
    send(clients, topic, lines)
    with application.running(**config):
        await_counts(clients, topic, counts, **{"isolation.level": "read_committed"})
    topics.clean(changelog)
    (stats,) = topics.stats(changelog)
    assert stats["live_keys"] == len(counts)
    assert len(counts) <= stats["records"] < sum(counts.values()) / 2
    with application.running(wipe=True, **config) as started:
        assert started["restored"] == stats["records"]
        assert {word: application.count(word) for word in counts} == counts
        send(clients, topic, [WORDS[0]])
        counts[WORDS[0]] += 1
        await_counts(clients, topic, counts, **{"isolation.level": "read_committed"})
