"""Elections, reassignments, features, credentials: what a cluster of one node says.

Codes and messages are those that a Kafka 4.3.1 of one node gave to the same requests.
"""

from pathlib import Path
from typing import Any

import pytest

from tailrace.broker.cluster.features import Feature, check_update
from tailrace.broker.errors import KafkaError
from tailrace.broker.handlers.api_versions import tell_features
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.kafka.apis import (
    ALTER_PARTITION_REASSIGNMENTS,
    DESCRIBE_USER_SCRAM_CREDENTIALS,
    ELECT_LEADERS,
    LIST_PARTITION_REASSIGNMENTS,
    UPDATE_FEATURES,
)
from tailrace.protocol.kafka.messages import alter_partition_reassignments as reassign
from tailrace.protocol.kafka.messages.api_versions import ApiVersionsResponse
from tailrace.protocol.kafka.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    UserName,
)
from tailrace.protocol.kafka.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from tailrace.protocol.kafka.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from tailrace.protocol.kafka.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tests.unit.broker.handlers.admin_support import Admin, admin, run

CODES = ErrorCode


@pytest.mark.parametrize("version", list(ELECT_LEADERS.versions))
@pytest.mark.parametrize("kind", [0, 1])
def test_an_election_is_not_needed(tmp_path: Path, version: int, kind: int) -> None:
    async def story() -> None:
        async with admin(tmp_path) as to:
            await to.topics.create("orders", 2)
            asked = [TopicPartitions(topic="orders", partitions=[0, 1, 2, -1])]
            asked.append(TopicPartitions(topic="nobody", partitions=[0]))
            request = ElectLeadersRequest(election_type=kind, topic_partitions=asked)
            answer = await to.ask(ELECT_LEADERS, version, request)
            assert answer.error_code == 0
            assert [
                (topic.topic, [each.error_code for each in topic.partition_result])
                for topic in answer.replica_election_results
            ] == [("orders", [84, 84, 3, 3]), ("nobody", [3])]
            everything = ElectLeadersRequest(election_type=kind, topic_partitions=None)
            (topic,) = (await to.ask(ELECT_LEADERS, version, everything)).replica_election_results
            assert (topic.topic, topic.partition_result) == ("orders", ())

    run(story)


def test_an_unknown_kind_of_election(tmp_path: Path) -> None:
    async def story() -> None:
        async with admin(tmp_path) as to:
            asked = [TopicPartitions(topic="orders", partitions=[0])]
            request = ElectLeadersRequest(election_type=9, topic_partitions=asked)
            answer = await to.ask(ELECT_LEADERS, 2, request)
            (topic,) = answer.replica_election_results
            (result,) = topic.partition_result
            assert (answer.error_code, result.error_code) == (42, 42)
            assert result.error_message == "Unknown election type 9"

    run(story)


@pytest.mark.parametrize(
    ("topic", "partition", "replicas", "code", "words"),
    [
        ("orders", 0, [1], CODES.NONE, None),
        ("orders", 0, [2], CODES.INVALID_REPLICA_ASSIGNMENT, "no such broker is registered"),
        ("orders", 0, [1, 1], CODES.INVALID_REPLICA_ASSIGNMENT, "the broker 1 more than once"),
        ("orders", 0, [], CODES.INVALID_REPLICA_ASSIGNMENT, "an empty replica list"),
        ("orders", 0, [-1], CODES.INVALID_REPLICA_ASSIGNMENT, "no such broker is registered"),
        ("orders", 0, None, CODES.NO_REASSIGNMENT_IN_PROGRESS, None),
        ("orders", 7, None, CODES.UNKNOWN_TOPIC_OR_PARTITION, "Unable to find partition orders:7."),
        ("nobody", 0, [1], CODES.UNKNOWN_TOPIC_OR_PARTITION, "Unable to find a topic named nobody"),
    ],
)
@pytest.mark.parametrize("version", list(ALTER_PARTITION_REASSIGNMENTS.versions))
def test_reassignments(
    tmp_path: Path,
    topic: str,
    partition: int,
    replicas: list[int] | None,
    code: int,
    words: str | None,
    version: int,
) -> None:
    async def story() -> None:
        async with admin(tmp_path) as to:
            await to.topics.create("orders", 1)
            wanted = reassign.ReassignablePartition(partition_index=partition, replicas=replicas)
            request = reassign.AlterPartitionReassignmentsRequest(
                topics=[reassign.ReassignableTopic(name=topic, partitions=[wanted])]
            )
            answer = await to.ask(ALTER_PARTITION_REASSIGNMENTS, version, request)
            ((told,),) = [each.partitions for each in answer.responses]
            assert (answer.error_code, told.error_code) == (0, code)
            assert told.error_message is None if words is None else words in told.error_message  # type: ignore[operator]

    run(story)


@pytest.mark.parametrize("names", [None, ["orders", "nobody"]])
def test_nothing_is_being_reassigned(tmp_path: Path, names: list[str] | None) -> None:
    async def story() -> None:
        async with admin(tmp_path) as to:
            await to.topics.create("orders", 1)
            wanted = names and [
                ListPartitionReassignmentsTopics(name=name, partition_indexes=[0]) for name in names
            ]
            request = ListPartitionReassignmentsRequest(topics=wanted)
            answer = await to.ask(LIST_PARTITION_REASSIGNMENTS, 0, request)
            assert (answer.error_code, answer.topics) == (0, ())

    run(story)


def test_nobody_has_credentials(tmp_path: Path) -> None:
    async def described(to: Admin, names: list[str] | None) -> list[tuple[str, int]]:
        users = names if names is None else [UserName(name=name) for name in names]
        request: Any = DescribeUserScramCredentialsRequest(users=users)
        answer = await to.ask(DESCRIBE_USER_SCRAM_CREDENTIALS, 0, request)
        assert answer.error_code == 0
        return [(result.user, result.error_code) for result in answer.results]

    async def story() -> None:
        async with admin(tmp_path) as to:
            assert await described(to, None) == []
            assert await described(to, ["a", "b", "b"]) == [("a", 91), ("b", 92)]

    run(story)


LEVELS = {"two": Feature(0, 2, 2)}


@pytest.mark.parametrize(
    ("name", "level", "kind", "words"),
    [
        ("two", 2, 1, None),
        ("two", 2, 3, None),
        ("two", 3, 1, "only supports versions 0-2"),
        ("two", 1, 1, "Can't downgrade"),
        ("two", 1, 2, "fixed at 2"),
        ("two", -1, 1, "cannot be less than 0"),
        ("two", 2, 9, "upgrade type"),
        ("one", 1, 1, "supports this feature"),
    ],
)
def test_only_the_level_that_holds(name: str, level: int, kind: int, words: str | None) -> None:
    if words is None:
        check_update(name, level, kind, LEVELS)
        return
    with pytest.raises(KafkaError, match=words) as refused:
        check_update(name, level, kind, LEVELS)
    assert refused.value.code is ErrorCode.INVALID_UPDATE_VERSION


@pytest.mark.parametrize(
    ("version", "supported"), [(3, {"three": (1, 3)}), (4, {"two": (0, 2), "three": (1, 3)})]
)
def test_clients_are_told_what_holds(version: int, supported: dict[str, tuple[int, int]]) -> None:
    response = ApiVersionsResponse()
    features = {**LEVELS, "three": Feature(1, 3, 0)}
    tell_features(response, version, features)
    assert {
        each.name: (each.min_version, each.max_version) for each in response.supported_features
    } == supported
    (finalized,) = response.finalized_features
    assert (finalized.name, finalized.max_version_level) == ("two", 2)
    assert response.finalized_features_epoch == 0
    nothing = ApiVersionsResponse()
    tell_features(nothing, version, {})
    assert nothing.finalized_features_epoch == -1


@pytest.mark.parametrize("version", list(UPDATE_FEATURES.versions))
def test_one_bad_update_fails_all(tmp_path: Path, version: int) -> None:
    async def story() -> None:
        async with admin(tmp_path) as to:
            updates = [FeatureUpdateKey(feature="no.such", max_version_level=1)]
            request = UpdateFeaturesRequest(feature_updates=updates)
            answer = await to.ask(UPDATE_FEATURES, version, request)
            assert (answer.error_code, answer.results) == (95, ())
            assert "feature no.such" in (answer.error_message or "")
            nothing = await to.ask(UPDATE_FEATURES, version, UpdateFeaturesRequest())
            assert (nothing.error_code, nothing.error_message) == (0, None)

    run(story)
