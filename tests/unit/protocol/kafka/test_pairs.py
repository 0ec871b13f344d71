"""Every API and version that is advertised is held equal to Kafka's own classes by a test.

The tests with Java read and write both messages of a pair through Kafka's generated classes. Here
only the list of what they do is looked at, so this needs no JVM: it fails when a pair is left out.
"""

from typing import Any

import pytest

from tailrace.protocol.kafka.apis import APIS, PRODUCE
from tests.java import test_kafka_messages as java

ADVERTISED = {(api.key, version) for api in APIS.values() for version in api.advertised}
ONLY_ADVERTISED = {(PRODUCE.key, version) for version in range(3)}
"""Kafka 4 shows Produce 0-2 and closes the connection of who uses them: nothing is encoded."""


def pairs_of(test: Any) -> set[tuple[int, int]]:
    """Return the pairs that a test is run for."""
    marks = [mark for mark in test.pytestmark if mark.args and mark.args[0] == ("api", "version")]
    assert len(marks) == 1, f"{test.__name__} is not run for pairs"
    return {(api.key, version) for api, version in marks[0].args[1]}


@pytest.mark.parametrize("test", [java.test_request_is_javas, java.test_response_is_javas])
def test_kafkas_own_classes_check_every_pair(test: Any) -> None:
    assert pairs_of(test) == ADVERTISED - ONLY_ADVERTISED


def test_nothing_else_is_left_out() -> None:
    served = {(api.key, version) for api in APIS.values() for version in api.versions}
    assert ADVERTISED - served == ONLY_ADVERTISED
    assert served <= ADVERTISED
