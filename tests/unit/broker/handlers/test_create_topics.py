from pathlib import Path

import pytest

from tailrace.broker.config import BrokerConfig
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.kafka.apis import CREATE_TOPICS
from tailrace.protocol.kafka.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreateTopicsRequest,
)
from tests.unit.broker.handlers.admin_support import Admin, admin, run

VERSIONS = list(CREATE_TOPICS.versions)


def topic(
    name: str, partitions: int = 1, replicas: int = 1, **configs: str | None
) -> CreatableTopic:
    entries = [
        CreatableTopicConfig(name=key.replace("_", "."), value=value)
        for key, value in configs.items()
    ]
    return CreatableTopic(
        name=name, num_partitions=partitions, replication_factor=replicas, configs=entries
    )


async def create(
    to: Admin, *topics: CreatableTopic, version: int = 7, validate_only: bool = False
) -> list[CreatableTopicResult]:
    request = CreateTopicsRequest(topics=topics, validate_only=validate_only)
    return list((await to.ask(CREATE_TOPICS, version, request)).topics)


async def code(to: Admin, asked: CreatableTopic, **options: bool) -> int:
    (result,) = await create(to, asked, **options)
    assert result.error_message
    return result.error_code


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_creates(tmp_path: Path, version: int) -> None:
    async def story() -> None:
        async with admin(tmp_path) as to:
            (made,) = await create(to, topic("orders", 2, retention_ms="5"), version=version)
            assert (made.error_code, made.error_message) == (0, None)
            found = to.topics.get("orders")
            assert found is not None
            assert found.partition_count == 2
            assert to.streams.names == {"orders-0", "orders-1"}
            if version >= 7:
                assert made.topic_id == found.topic_id
            if version >= 5:
                assert (made.num_partitions, made.replication_factor) == (2, 1)
                configs = {c.name: c for c in made.configs or ()}
                assert configs["retention.ms"].value == "5"
                assert configs["retention.ms"].config_source == 1
                assert configs["segment.bytes"].config_source == 5
                assert not configs["segment.bytes"].read_only

    run(story)


def test_minus_one_means_the_brokers_own_numbers(tmp_path: Path) -> None:
    async def story() -> None:
        async with admin(tmp_path, BrokerConfig(num_partitions=4)) as to:
            (made,) = await create(to, topic("orders", -1, -1))
            assert (made.num_partitions, made.replication_factor) == (4, 1)

    run(story)


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (topic("there"), ErrorCode.TOPIC_ALREADY_EXISTS),
        (topic("there", replicas=3), ErrorCode.TOPIC_ALREADY_EXISTS),
        (topic("a/b"), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (topic("__cluster_metadata"), ErrorCode.INVALID_REQUEST),
        (topic("ther.e_"), ErrorCode.NONE),
        (topic("my.topic"), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (topic("new", 0), ErrorCode.INVALID_PARTITIONS),
        (topic("new", -2), ErrorCode.INVALID_PARTITIONS),
        (topic("new", 1, 0), ErrorCode.INVALID_REPLICATION_FACTOR),
        (topic("new", 1, 3), ErrorCode.INVALID_REPLICATION_FACTOR),
        (topic("new", retention_ms=None), ErrorCode.INVALID_CONFIG),
        (topic("new", no_such="1"), ErrorCode.INVALID_CONFIG),
        (topic("new", retention_ms="x"), ErrorCode.INVALID_CONFIG),
        (topic("new", compression_type="brotli"), ErrorCode.INVALID_CONFIG),
        (topic("new", 3, 3, no_such="1"), ErrorCode.INVALID_CONFIG),
    ],
)
@pytest.mark.parametrize("validate_only", [False, True])
def test_refusals(
    tmp_path: Path, asked: CreatableTopic, expected: ErrorCode, validate_only: bool
) -> None:
    async def story() -> None:
        async with admin(tmp_path) as to:
            await create(to, topic("there"), topic("my_topic"))
            before = set(to.streams.names)
            (result,) = await create(to, asked, validate_only=validate_only)
            assert result.error_code == expected
            if expected:
                assert result.error_message
                assert result.configs == ()
                assert to.streams.names == before

    run(story)


def test_validate_only_creates_nothing(tmp_path: Path) -> None:
    async def story() -> None:
        async with admin(tmp_path) as to:
            (result,) = await create(to, topic("orders", 2), validate_only=True)
            assert (result.error_code, result.num_partitions) == (0, 2)
            assert result.topic_id == bytes(16)
            assert to.topics.all() == []

    run(story)


@pytest.mark.parametrize(
    ("asked", "expected", "words"),
    [
        (topic("new", 1, 3), ErrorCode.NONE, ""),
        (topic("new", 1, 4), ErrorCode.INVALID_REPLICATION_FACTOR, "only 3 bookie"),
        (topic("new", 1, 3, min_insync_replicas="2"), ErrorCode.NONE, ""),
        (topic("new", 1, 3, min_insync_replicas="3"), ErrorCode.INVALID_CONFIG, "2 copies"),
        (topic("new", 1, 2, tailrace_ensemble_size="3"), ErrorCode.NONE, ""),
        (topic("new", 1, 2, tailrace_ensemble_size="1"), ErrorCode.INVALID_CONFIG, "2 copies"),
        (
            topic("new", 1, 2, tailrace_ensemble_size="4"),
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "only 3 bookie",
        ),
    ],
)
@pytest.mark.parametrize("validate_only", [False, True])
def test_copies_on_three_bookies(
    tmp_path: Path, asked: CreatableTopic, expected: ErrorCode, words: str, validate_only: bool
) -> None:
    async def story() -> None:
        async with admin(tmp_path, bookies=3) as to:
            (result,) = await create(to, asked, validate_only=validate_only)
            assert result.error_code == expected
            assert words in (result.error_message or "")
            made = to.topics.get("new")
            assert (made is not None) == (not expected and not validate_only)
            if made is not None:
                assert made.replication_factor == asked.replication_factor

    run(story)


def test_one_failure_touches_no_other_and_duplicates_are_refused(tmp_path: Path) -> None:
    async def story() -> None:
        async with admin(tmp_path) as to:
            results = await create(to, topic("twice"), topic("good"), topic("b/d"), topic("twice"))
            assert {r.name: r.error_code for r in results} == {
                "twice": ErrorCode.INVALID_REQUEST,
                "good": ErrorCode.NONE,
                "b/d": ErrorCode.INVALID_TOPIC_EXCEPTION,
            }
            assert [t.name for t in to.topics.all()] == ["good"]

    run(story)


def test_assignments(tmp_path: Path) -> None:
    def assigned(*pairs: tuple[int, tuple[int, ...]], partitions: int = -1) -> CreatableTopic:
        entries = [CreatableReplicaAssignment(partition_index=p, broker_ids=b) for p, b in pairs]
        return CreatableTopic(
            name="new", num_partitions=partitions, replication_factor=-1, assignments=entries
        )

    async def story() -> None:
        async with admin(tmp_path) as to:
            bad = ErrorCode.INVALID_REPLICA_ASSIGNMENT
            assert await code(to, assigned((0, (2,)))) == bad
            assert await code(to, assigned((1, (1,)))) == bad
            assert await code(to, assigned((0, (1,)), (0, (1,)))) == bad
            assert await code(to, assigned((0, (1,)), partitions=1)) == ErrorCode.INVALID_REQUEST
            (made,) = await create(to, assigned((1, (1,)), (0, (1,))))
            assert made.num_partitions == 2

    run(story)


def test_a_replication_factor_above_one_can_be_clamped(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        async with admin(tmp_path, above_brokers="clamp") as to:
            (made,) = await create(to, topic("connect-offsets", 25, 3, cleanup_policy="compact"))
            assert (made.error_code, made.replication_factor) == (0, 1)

    run(story)
    assert "clamped topic=connect-offsets asked=3 bookies=1" in caplog.text


@pytest.mark.parametrize(("counts", "code"), [((5_000, 5_000), 0), ((9_999, 1, -1), 44)])
def test_a_request_makes_so_many_partitions_and_no_more(
    tmp_path: Path, counts: tuple[int, ...], code: int
) -> None:
    async def story() -> None:
        async with admin(tmp_path) as to:
            asked = [topic(f"t{number}", count, 1) for number, count in enumerate(counts)]
            told = await create(to, *asked, validate_only=True)
            assert [each.error_code for each in told] == [code] * len(counts)

    run(story)
