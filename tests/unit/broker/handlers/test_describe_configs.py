import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from tailrace.broker.cluster.config import TopicDefaultsConfig
from tailrace.broker.cluster.topic_configs import TOPIC_CONFIGS
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.kafka.apis import DESCRIBE_CONFIGS
from tailrace.protocol.kafka.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResult,
)
from tests.unit.broker.handlers.admin_support import Admin, admin, run

TOPIC, BROKER = 2, 4


async def describe(
    to: Admin,
    kind: int,
    name: str,
    keys: list[str] | None = None,
    version: int = 4,
    *,
    synonyms: bool = True,
    documentation: bool = True,
) -> DescribeConfigsResult:
    resource = DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=keys
    )
    request = DescribeConfigsRequest(
        resources=[resource],
        include_synonyms=synonyms,
        include_documentation=documentation and version >= 3,
    )
    (result,) = (await to.ask(DESCRIBE_CONFIGS, version, request)).results
    assert (result.resource_type, result.resource_name) == (kind, name)
    return result


def by_name(result: DescribeConfigsResult) -> dict[str, DescribeConfigsResourceResult]:
    assert (result.error_code, result.error_message) == (0, None)
    return {config.name: config for config in result.configs}


@pytest.mark.parametrize("version", list(DESCRIBE_CONFIGS.versions))
def test_a_topic_in_every_version(tmp_path: Path, version: int) -> None:
    async def story() -> None:
        async with admin(tmp_path) as to:
            await to.topics.create("orders", 1, {"cleanup.policy": "compact"}, 3)
            configs = by_name(await describe(to, TOPIC, "orders", version=version))
            quorums = configs.pop("tailrace.quorums")
            assert (quorums.value, quorums.read_only) == ("3/3/2", True)
            assert set(configs) == {n for n, c in TOPIC_CONFIGS.items() if not c.internal}
            policy = configs["cleanup.policy"]
            assert (policy.value, policy.config_source, policy.read_only) == ("compact", 1, False)
            assert [(s.name, s.value, s.source) for s in policy.synonyms] == [
                ("cleanup.policy", "compact", 1),
                ("log.cleanup.policy", "delete", 5),
            ]
            if version >= 3:
                assert policy.config_type == 7
                assert policy.documentation

    run(story)


def test_static_broker_settings_show_as_such(tmp_path: Path) -> None:
    async def story() -> None:
        defaults = replace(TopicDefaultsConfig(), retention_minutes=5)
        async with admin(tmp_path, defaults=defaults) as to:
            await to.topics.create("orders", 1)
            retention = by_name(await describe(to, TOPIC, "orders"))["retention.ms"]
            assert (retention.value, retention.config_source) == ("300000", 4)
            broker = by_name(await describe(to, BROKER, "1"))
            assert broker["log.retention.minutes"].config_source == 4

    run(story)


@pytest.mark.parametrize("keys", [["retention.ms"], ["retention.ms", "no.such"]])
def test_only_the_named_keys(tmp_path: Path, keys: list[str]) -> None:
    async def story() -> None:
        async with admin(tmp_path) as to:
            await to.topics.create("orders", 1)
            assert set(by_name(await describe(to, TOPIC, "orders", keys))) == {"retention.ms"}
            everything = by_name(await describe(to, TOPIC, "orders", []))
            assert len(everything) > 30

    run(story)


def test_synonyms_and_documentation_only_when_asked(tmp_path: Path) -> None:
    async def story() -> None:
        async with admin(tmp_path) as to:
            await to.topics.create("orders", 1)
            result = await describe(to, TOPIC, "orders", synonyms=False, documentation=False)
            for config in by_name(result).values():
                assert config.synonyms == ()
                assert config.documentation is None

    run(story)


def test_a_resource_that_is_named_again_is_answered_once(tmp_path: Path) -> None:
    """A broker's answer has 60 KB: a request of as much could ask for a thousand."""

    async def story() -> None:
        async with admin(tmp_path) as to:
            named = [(BROKER, "1", None), (TOPIC, "t", None), (BROKER, "1", []), (BROKER, "", None)]
            some = [(BROKER, "1", ["node.id"]), (BROKER, "1", ["node.id", "node.id"])]
            request = DescribeConfigsRequest(
                resources=[
                    DescribeConfigsResource(
                        resource_type=kind, resource_name=name, configuration_keys=keys
                    )
                    for kind, name, keys in named + some
                ]
            )
            found = (await to.ask(DESCRIBE_CONFIGS, 4, request)).results
            assert [(each.resource_type, each.resource_name) for each in found] == [
                (BROKER, "1"), (TOPIC, "t"), (BROKER, ""), (BROKER, "1"),
            ]  # fmt: skip
            assert [config.name for config in found[3].configs] == ["node.id"]

    run(story)


def test_others_get_their_turns_while_many_resources_are_described(tmp_path: Path) -> None:
    async def story() -> None:
        async with admin(tmp_path) as to:
            resources = [
                DescribeConfigsResource(resource_type=32, resource_name=f"g{number}")
                for number in range(500)
            ]
            turns = 0

            async def other() -> None:
                nonlocal turns
                while True:
                    turns += 1
                    await asyncio.sleep(0)

            task = asyncio.get_running_loop().create_task(other())
            request = DescribeConfigsRequest(resources=resources)
            assert len((await to.ask(DESCRIBE_CONFIGS, 4, request)).results) == 500
            task.cancel()
            assert turns >= 10

    run(story)


def test_the_broker_and_the_cluster_wide_defaults(tmp_path: Path) -> None:
    async def story() -> None:
        async with admin(tmp_path) as to:
            configs = by_name(await describe(to, BROKER, "1"))
            assert configs["node.id"].read_only
            assert not configs["log.retention.ms"].read_only
            assert configs["advertised.listeners"].value == "PLAINTEXT://h:9"
            assert configs["log.dirs"].value == "/data"
            assert configs["num.partitions"].value == "1"
            assert configs["log.retention.hours"].value == "168"
            assert by_name(await describe(to, BROKER, "")) == {}

    run(story)


@pytest.mark.parametrize(
    ("kind", "name", "code"),
    [
        (TOPIC, "nobody", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "a/b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (TOPIC, "", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (BROKER, "2", ErrorCode.INVALID_REQUEST),
        (BROKER, "one", ErrorCode.INVALID_REQUEST),
        (8, "", ErrorCode.INVALID_REQUEST),
        (8, "2", ErrorCode.INVALID_REQUEST),
        (16, "", ErrorCode.INVALID_REQUEST),
        (32, "", ErrorCode.INVALID_REQUEST),
        (99, "", ErrorCode.INVALID_REQUEST),
    ],
)
def test_refusals(tmp_path: Path, kind: int, name: str, code: ErrorCode) -> None:
    async def story() -> None:
        async with admin(tmp_path) as to:
            result = await describe(to, kind, name)
            assert result.error_code == code
            assert result.error_message
            assert result.configs == ()

    run(story)
