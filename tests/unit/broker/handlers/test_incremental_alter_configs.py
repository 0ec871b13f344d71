from pathlib import Path

import pytest

from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.kafka.apis import INCREMENTAL_ALTER_CONFIGS
from tailrace.protocol.kafka.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.unit.broker.handlers.admin_support import Admin, admin, run

TOPIC, BROKER = 2, 4
SET, DELETE, APPEND, SUBTRACT = range(4)
Change = tuple[str, int, str | None]


def resource(kind: int, name: str, *changes: Change) -> AlterConfigsResource:
    configs = [AlterableConfig(name=n, config_operation=o, value=v) for n, o, v in changes]
    return AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)


async def codes(
    to: Admin, *resources: AlterConfigsResource, version: int = 1, validate_only: bool = False
) -> list[int]:
    request = IncrementalAlterConfigsRequest(resources=resources, validate_only=validate_only)
    answer = await to.ask(INCREMENTAL_ALTER_CONFIGS, version, request)
    for asked, told in zip(resources, answer.responses, strict=True):
        assert (asked.resource_type, asked.resource_name) == (
            told.resource_type,
            told.resource_name,
        )
        assert (told.error_message is None) is (told.error_code == 0)
    return [response.error_code for response in answer.responses]


def configs_of(to: Admin, name: str = "orders") -> dict[str, str]:
    topic = to.topics.get(name)
    assert topic is not None
    return dict(topic.configs)


@pytest.mark.parametrize("version", list(INCREMENTAL_ALTER_CONFIGS.versions))
def test_all_four_operations(tmp_path: Path, version: int) -> None:
    async def story() -> None:
        async with admin(tmp_path) as to:
            await to.topics.create("orders", 1, {"segment.ms": "7"})
            changes: list[Change] = [
                ("retention.ms", SET, "5"),
                ("segment.ms", DELETE, None),
                ("cleanup.policy", APPEND, "compact"),
            ]
            assert await codes(to, resource(TOPIC, "orders", *changes), version=version) == [0]
            assert configs_of(to) == {"retention.ms": "5", "cleanup.policy": "delete,compact"}
            change: Change = ("cleanup.policy", SUBTRACT, "delete")
            assert await codes(to, resource(TOPIC, "orders", change), version=version) == [0]
            assert configs_of(to)["cleanup.policy"] == "compact"

    run(story)


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ([("no.such", SET, "1")], ErrorCode.INVALID_CONFIG),
        ([("retention.ms", SET, "x")], ErrorCode.INVALID_CONFIG),
        ([("retention.ms", APPEND, "5")], ErrorCode.INVALID_CONFIG),
        ([("retention.ms", SET, None)], ErrorCode.INVALID_REQUEST),
        ([("retention.ms", 9, "5")], ErrorCode.INVALID_REQUEST),
        ([("retention.ms", SET, "5"), ("retention.ms", DELETE, None)], ErrorCode.INVALID_REQUEST),
        ([("segment.ms", SET, "5"), ("no.such", SET, "1")], ErrorCode.INVALID_CONFIG),
    ],
)
@pytest.mark.parametrize("validate_only", [False, True])
def test_refusals_change_nothing(
    tmp_path: Path, changes: list[Change], code: ErrorCode, validate_only: bool
) -> None:
    async def story() -> None:
        async with admin(tmp_path) as to:
            await to.topics.create("orders", 1)
            asked = resource(TOPIC, "orders", *changes)
            assert await codes(to, asked, validate_only=validate_only) == [code]
            assert configs_of(to) == {}

    run(story)


def test_validate_only_changes_nothing(tmp_path: Path) -> None:
    async def story() -> None:
        async with admin(tmp_path) as to:
            await to.topics.create("orders", 1)
            asked = resource(TOPIC, "orders", ("retention.ms", SET, "5"))
            assert await codes(to, asked, validate_only=True) == [0]
            assert configs_of(to) == {}

    run(story)


def test_resources_do_not_touch_each_other(tmp_path: Path) -> None:
    async def story() -> None:
        async with admin(tmp_path) as to:
            await to.topics.create("orders", 1)
            await to.topics.create("other", 1)
            asked = [
                resource(TOPIC, "nobody", ("retention.ms", SET, "5")),
                resource(TOPIC, "a/b", ("retention.ms", SET, "5")),
                resource(TOPIC, "", ("retention.ms", SET, "5")),
                resource(TOPIC, "orders", ("retention.ms", SET, "5")),
                resource(TOPIC, "other", ("retention.ms", SET, "5")),
                resource(TOPIC, "other", ("retention.ms", SET, "6")),
            ]
            assert await codes(to, *asked) == [
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                ErrorCode.INVALID_TOPIC_EXCEPTION,
                ErrorCode.INVALID_REQUEST,
                ErrorCode.NONE,
                ErrorCode.INVALID_REQUEST,
                ErrorCode.INVALID_REQUEST,
            ]
            assert configs_of(to) == {"retention.ms": "5"}
            assert configs_of(to, "other") == {}

    run(story)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (("min.insync.replicas", SET, "2"), ErrorCode.NONE),
        (("min.insync.replicas", SET, "3"), ErrorCode.INVALID_CONFIG),
        (("tailrace.ensemble.size", SET, "4"), ErrorCode.INVALID_CONFIG),
        (("tailrace.ensemble.size", SET, "5"), ErrorCode.NONE),
    ],
)
def test_what_the_copies_of_a_topic_allow(
    tmp_path: Path, change: Change, expected: ErrorCode
) -> None:
    async def story() -> None:
        async with admin(tmp_path) as to:
            await to.topics.create("orders", 1, {"tailrace.ensemble.size": "5"}, 3)
            assert await codes(to, resource(TOPIC, "orders", change)) == [expected]

    run(story)
