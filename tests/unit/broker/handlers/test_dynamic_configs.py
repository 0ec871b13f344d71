"""Configs of brokers, groups, loggers and metrics subscriptions: altered, listed, in force.

The refusals are those that a Kafka 4.3.1 gave to the same requests.
"""

import logging
from collections.abc import Sequence
from pathlib import Path

import pytest

from tailrace.broker.cluster.config_entities import EntityKind
from tailrace.compaction.cleaner.config import check_change
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.kafka.apis import (
    ALTER_CONFIGS,
    DESCRIBE_CONFIGS,
    INCREMENTAL_ALTER_CONFIGS,
    LIST_CONFIG_RESOURCES,
)
from tailrace.protocol.kafka.messages import alter_configs as whole
from tailrace.protocol.kafka.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
)
from tailrace.protocol.kafka.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tailrace.protocol.kafka.messages.list_config_resources import ListConfigResourcesRequest
from tests.unit.broker.handlers.admin_support import Admin, admin, run

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)
Change = tuple[str, int, str | None]
Told = tuple[int, str | None]
CODES = ErrorCode


async def alter(
    to: Admin, kind: int, name: str, *changes: Change, validate_only: bool = False
) -> Told:
    configs = [AlterableConfig(name=n, config_operation=o, value=v) for n, o, v in changes]
    resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)
    (told,) = (await to.ask(INCREMENTAL_ALTER_CONFIGS, 1, request)).responses
    return told.error_code, told.error_message


async def replace(
    to: Admin,
    resources: Sequence[tuple[int, str, Sequence[tuple[str, str | None]]]],
    *,
    version: int = 2,
    validate_only: bool = False,
) -> list[int]:
    request = whole.AlterConfigsRequest(
        resources=[
            whole.AlterConfigsResource(
                resource_type=kind,
                resource_name=name,
                configs=[whole.AlterableConfig(name=n, value=v) for n, v in configs],
            )
            for kind, name, configs in resources
        ],
        validate_only=validate_only,
    )
    answer = await to.ask(ALTER_CONFIGS, version, request)
    return [told.error_code for told in answer.responses]


async def describe(to: Admin, kind: int, name: str) -> dict[str, DescribeConfigsResourceResult]:
    resource = DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=None
    )
    request = DescribeConfigsRequest(
        resources=[resource], include_synonyms=True, include_documentation=True
    )
    (result,) = (await to.ask(DESCRIBE_CONFIGS, 4, request)).results
    assert (result.error_code, result.error_message) == (0, None)
    return {config.name: config for config in result.configs}


def places(config: DescribeConfigsResourceResult) -> list[tuple[str, str | None, int]]:
    return [(place.name, place.value, place.source) for place in config.synonyms]


def test_a_topic_follows_what_brokers_are_given(tmp_path: Path) -> None:
    async def story() -> None:
        async with admin(tmp_path) as to:
            await to.topics.create("orders", 1)
            await to.topics.create("own", 1, {"retention.ms": "3"})
            assert await alter(to, BROKER, "", ("log.retention.ms", SET, "8")) == (0, None)
            assert to.topics.get("orders").settings.retention_ms == 8  # type: ignore[union-attr]
            assert await alter(to, BROKER, "1", ("log.retention.ms", SET, "7")) == (0, None)
            assert to.topics.get("orders").settings.retention_ms == 7  # type: ignore[union-attr]
            assert to.topics.get("own").settings.retention_ms == 3  # type: ignore[union-attr]
            retention = (await describe(to, TOPIC, "orders"))["retention.ms"]
            assert (retention.value, retention.config_source) == ("7", 2)
            assert places(retention) == [
                ("log.retention.ms", "7", 2),
                ("log.retention.ms", "8", 3),
                ("log.retention.hours", "168", 5),
            ]
            assert set(await describe(to, BROKER, "")) == {"log.retention.ms"}
            assert (await describe(to, BROKER, "1"))["log.retention.ms"].value == "7"
            for name in ("", "1"):
                assert await alter(to, BROKER, name, ("log.retention.ms", DELETE, None)) == (
                    0,
                    None,
                )
            assert to.topics.get("orders").settings.retention_ms == 604_800_000  # type: ignore[union-attr]
            assert await describe(to, BROKER, "") == {}

    run(story)


def test_the_brokers_own_settings_act_at_once_and_survive(tmp_path: Path) -> None:
    async def story() -> None:
        async with admin(tmp_path) as to:
            assert await alter(to, BROKER, "1", ("max.connections", SET, " 5 ")) == (0, None)
            assert to.config.network.connections_max == 5
            await alter(to, BROKER, "", ("max.connections", SET, "6"))
            assert to.config.network.connections_max == 5
        async with admin(tmp_path) as to:
            assert to.config.network.connections_max == 5
            await alter(to, BROKER, "1", ("max.connections", DELETE, None))
            assert to.config.network.connections_max == 6
            shown = (await describe(to, BROKER, "1"))["max.connections"]
            assert (shown.value, shown.config_source, shown.read_only) == ("6", 3, False)

    run(story)


@pytest.mark.parametrize(
    ("name", "change", "code", "words"),
    [
        ("1", ("node.id", SET, "9"), CODES.INVALID_REQUEST, "dynamically: [node.id]"),
        ("", ("log.retention.hours", SET, "2"), CODES.INVALID_REQUEST, "[log.retention.hours]"),
        ("1", ("log.retention.hours", SET, "2"), CODES.INVALID_REQUEST, "[log.retention.hours]"),
        ("1", ("no.such", SET, "2"), CODES.INVALID_REQUEST, "dynamically: [no.such]"),
        ("1", ("node.id", DELETE, None), CODES.NONE, None),
        ("1", ("no.such", DELETE, None), CODES.NONE, None),
        ("1", ("max.connections", SET, "x"), CODES.INVALID_REQUEST, "Not a number of type INT"),
        ("1", ("max.connections.per.ip.overrides", SET, "::1:7,127.0.0.1:8"), CODES.NONE, None),
        ("1", ("max.connections.per.ip.overrides", SET, "7"), CODES.INVALID_REQUEST, "'7'"),
        ("1", ("max.connections", APPEND, "9"), CODES.INVALID_CONFIG, "not LIST"),
        ("", ("log.cleanup.policy", APPEND, "foo"), CODES.INVALID_REQUEST, "log.cleanup.policy:"),
        ("1", ("log.segment.bytes", SET, "9"), CODES.INVALID_REQUEST, "at least 1048576"),
        ("1", ("message.max.bytes", SET, "-9"), CODES.INVALID_REQUEST, "message.max.bytes:"),
        ("1", ("message.max.bytes", SET, None), CODES.INVALID_REQUEST, "Null value not supported"),
        ("1", ("message.max.bytes", 7, "1"), CODES.INVALID_REQUEST, "Unknown operations type 7"),
        ("2", ("message.max.bytes", SET, "9"), CODES.INVALID_REQUEST, "Unexpected broker id"),
        ("x", ("message.max.bytes", SET, "9"), CODES.INVALID_REQUEST, "must be an integer"),
        ("1", ("leader.replication.throttled.rate", SET, "100"), CODES.NONE, None),
        ("1", ("sasl.kerberos.min.time.before.relogin", SET, "58000"), CODES.NONE, None),
        ("1", ("sasl.login.refresh.window.jitter", SET, "x"), CODES.INVALID_REQUEST, "DOUBLE"),
        (
            "",
            ("sasl.kerberos.min.time.before.relogin", SET, "58000"),
            CODES.INVALID_REQUEST,
            "Cannot update these configs at default cluster level: [sasl.kerberos.min",
        ),
        ("1", ("sasl.jaas.config", SET, "x"), CODES.INVALID_REQUEST, "dynamically: [sasl.jaas"),
    ],
)
@pytest.mark.parametrize("validate_only", [False, True])
def test_what_brokers_can_be_given(
    tmp_path: Path, name: str, change: Change, code: int, words: str | None, *, validate_only: bool
) -> None:
    async def story() -> None:
        async with admin(tmp_path) as to:
            told, message = await alter(to, BROKER, name, change, validate_only=validate_only)
            assert told == code, message
            assert (message is None) if words is None else words in (message or "")
            given = change[1] == SET and code == 0 and not validate_only
            assert to.configs.entities.names(EntityKind.BROKER) == ([name] if given else [])

    run(story)


def test_defaults_may_not_contradict_each_other(tmp_path: Path) -> None:
    async def story() -> None:
        async with admin(tmp_path) as to:
            await alter(to, BROKER, "", ("log.cleaner.min.compaction.lag.ms", SET, "9"))
            code, message = await alter(
                to, BROKER, "1", ("log.cleaner.max.compaction.lag.ms", SET, "8")
            )
            assert (code, "conflict" in (message or "")) == (ErrorCode.INVALID_REQUEST, True)

    run(story)


def test_the_cleaner_changes_while_it_runs_as_far_as_kafkas_does(tmp_path: Path) -> None:
    async def story() -> None:
        async with admin(tmp_path) as to:
            configs = to.configs
            configs.check_with(lambda now, wanted: check_change(now.cleaner, wanted.cleaner))
            rate = ("log.cleaner.io.max.bytes.per.second", SET, "1000.5")
            assert await alter(to, BROKER, "", rate) == (ErrorCode.NONE, None)
            courtesy = ("log.cleaner.io.courtesy.bytes.per.second", SET, "2000.5")
            assert await alter(to, BROKER, "", courtesy) == (ErrorCode.NONE, None)
            cleaner = configs.in_force.cleaner
            assert cleaner.io_bytes_per_second == 1000.5
            assert cleaner.io_courtesy_bytes_per_second == 2000.5
            for threads, words in ((2, None), (4, None), (9, "double"), (1, "half")):
                change = ("log.cleaner.threads", SET, str(threads))
                code, message = await alter(to, BROKER, "1", change)
                assert (code == ErrorCode.NONE) is (words is None), threads
                assert (words or "") in (message or "")
            assert configs.in_force.cleaner.threads == 4
            for bad in (
                ("log.cleaner.io.max.bytes.per.second", SET, "NaN"),
                ("log.cleaner.io.courtesy.bytes.per.second", SET, "0"),
                ("log.cleaner.dedupe.buffer.size", SET, "24"),
                ("log.cleaner.enable", SET, "false"),
            ):
                assert (await alter(to, BROKER, "", bad))[0] != ErrorCode.NONE

    run(story)


def test_lists_of_brokers_grow_and_shrink(tmp_path: Path) -> None:
    async def story() -> None:
        async with admin(tmp_path) as to:
            await alter(to, BROKER, "", ("log.cleanup.policy", APPEND, "compact"))
            assert (await describe(to, BROKER, ""))["log.cleanup.policy"].value == "delete,compact"
            await alter(to, BROKER, "", ("log.cleanup.policy", SUBTRACT, "delete"))
            assert to.topics.defaults.settings.cleanup_policy == ("compact",)

    run(story)


def test_a_groups_configs(tmp_path: Path) -> None:
    async def story() -> None:
        async with admin(tmp_path) as to:
            shown = (await describe(to, GROUP, "g"))["consumer.session.timeout.ms"]
            assert places(shown) == [("group.consumer.session.timeout.ms", "45000", 5)]
            change = ("consumer.session.timeout.ms", SET, "50000")
            assert await alter(to, GROUP, "g", change) == (0, None)
            shown = (await describe(to, GROUP, "g"))["consumer.session.timeout.ms"]
            assert (shown.value, shown.config_source, shown.config_type) == ("50000", 8, 3)
            assert len(places(shown)) == 2
            assert to.configs.group_config("g") == (50_000, 5_000, 1_000)
            assert to.configs.group_config("h") == (45_000, 5_000, 1_000)
            change = ("group.consumer.assignment.interval.ms", SET, "7")
            assert await alter(to, BROKER, "", change) == (0, None)
            assert to.configs.group_config("g") == (50_000, 5_000, 7)
            shown = (await describe(to, GROUP, "g"))["consumer.assignment.interval.ms"]
            assert places(shown) == [
                ("group.consumer.assignment.interval.ms", "7", 3),
                ("group.consumer.assignment.interval.ms", "1000", 5),
            ]

    run(story)


@pytest.mark.parametrize(
    ("name", "change", "code", "words"),
    [
        ("", ("consumer.session.timeout.ms", SET, "50000"), 42, "Default group resources"),
        ("g", ("no.such", SET, "1"), 40, "Unknown group config name: no.such"),
        ("g", ("share.isolation.level", SET, "read_committed"), 40, "Unknown group config name"),
        ("g", ("consumer.session.timeout.ms", SET, "x"), 40, "Not a number of type INT"),
        ("g", ("consumer.session.timeout.ms", SET, "5000"), 40, "or equal to group.consumer.min"),
        ("g", ("consumer.session.timeout.ms", SET, "99999"), 40, "or equal to group.consumer.max"),
        ("g", ("consumer.heartbeat.interval.ms", SET, "-1"), 40, "Value must be at least 1"),
        ("g", ("consumer.assignment.interval.ms", SET, "99999"), 40, "or equal to group.consumer"),
        ("g", ("consumer.session.timeout.ms", APPEND, "50000"), 40, "is not LIST"),
    ],
)
def test_what_groups_cannot_have(
    tmp_path: Path, name: str, change: Change, code: int, words: str
) -> None:
    async def story() -> None:
        async with admin(tmp_path) as to:
            told, message = await alter(to, GROUP, name, change)
            assert (told, words in (message or "")) == (code, True), message
            assert to.configs.group_config(name) == (45_000, 5_000, 1_000)

    run(story)


def test_metrics_subscriptions_are_kept(tmp_path: Path) -> None:
    async def story() -> None:
        async with admin(tmp_path) as to:
            changes: list[Change] = [
                ("interval.ms", SET, "5000"),
                ("metrics", SET, "a."),
                ("match", SET, "client_id=app-.*"),
            ]
            assert await alter(to, METRICS, "m", *changes) == (0, None)
            shown = await describe(to, METRICS, "m")
            assert {name: (c.value, c.config_source) for name, c in shown.items()} == {
                "interval.ms": ("5000", 7),
                "match": ("client_id=app-.*", 7),
                "metrics": ("a.", 7),
            }
            refusals: list[tuple[Change, ErrorCode]] = [
                (("interval.ms", SET, "5"), CODES.INVALID_REQUEST),
                (("no.such", SET, "5"), CODES.INVALID_REQUEST),
                (("interval.ms", SET, "x"), CODES.INVALID_CONFIG),
                (("match", SET, "nobody=x"), CODES.INVALID_CONFIG),
                (("match", SET, "client_id=("), CODES.INVALID_CONFIG),
                (("metrics", APPEND, "b."), CODES.INVALID_CONFIG),
            ]
            for change, code in refusals:
                assert (await alter(to, METRICS, "m", change))[0] == code
            assert (await alter(to, METRICS, "", changes[0]))[0] == ErrorCode.INVALID_REQUEST

    run(story)


def test_loggers_are_shown_and_changed(tmp_path: Path) -> None:
    name = "broker.test_loggers_are_shown_and_changed"
    logger = logging.getLogger(name)

    async def story() -> None:
        async with admin(tmp_path) as to:
            shown = (await describe(to, LOGGER, "1"))[name]
            assert (shown.config_source, shown.read_only) == (6, False)
            before = shown.value
            assert await alter(to, LOGGER, "1", (name, SET, "TRACE"), validate_only=True) == (
                0,
                None,
            )
            assert (await describe(to, LOGGER, "1"))[name].value == before
            assert await alter(to, LOGGER, "1", (name, SET, "FATAL")) == (0, None)
            assert logger.level == logging.CRITICAL
            assert (await describe(to, LOGGER, "1"))[name].value == "FATAL"
            assert await alter(to, LOGGER, "1", (name, DELETE, None)) == (0, None)
            assert (await describe(to, LOGGER, "1"))[name].value == before
            refusals: list[tuple[str, Change, int]] = [
                ("1", ("root", SET, "info"), 40),
                ("1", ("no.such.logger", SET, "INFO"), 40),
                ("1", ("root", DELETE, None), 42),
                ("1", ("root", APPEND, "INFO"), 42),
                ("", ("root", SET, "INFO"), 42),
                ("7", ("root", SET, "INFO"), 42),
            ]
            for where, change, code in refusals:
                assert (await alter(to, LOGGER, where, change))[0] == code

    run(story)


@pytest.mark.parametrize("version", list(ALTER_CONFIGS.versions))
def test_alter_configs_replaces_all(tmp_path: Path, version: int) -> None:
    async def story() -> None:
        async with admin(tmp_path) as to:
            await to.topics.create("orders", 1, {"retention.ms": "5", "segment.ms": "6"})
            await alter(to, BROKER, "", ("log.roll.ms", SET, "7"), ("log.retention.ms", SET, "7"))
            await alter(to, GROUP, "g", ("consumer.session.timeout.ms", SET, "50000"))
            asked: list[tuple[int, str, list[tuple[str, str | None]]]] = [
                (TOPIC, "orders", [("segment.ms", "9")]),
                (BROKER, "", [("log.roll.ms", "8")]),
                (GROUP, "g", []),
                (TOPIC, "nobody", []),
                (TOPIC, "orders2", [("a", None)]),
                (LOGGER, "1", [("root", "INFO")]),
                (99, "x", []),
            ]
            expected = [0, 0, 0, 3, 42, 42, 42]
            assert await replace(to, asked, version=version, validate_only=True) == expected
            assert to.topics.get("orders").configs["retention.ms"] == "5"  # type: ignore[union-attr]
            assert await replace(to, asked, version=version) == expected
            assert to.topics.get("orders").configs == {"segment.ms": "9"}  # type: ignore[union-attr]
            assert {n: c.value for n, c in (await describe(to, BROKER, "")).items()} == {
                "log.roll.ms": "8"
            }
            assert to.configs.group_config("g").session_timeout_ms == 45_000

    run(story)


def test_alter_configs_refuses_what_is_named_twice(tmp_path: Path) -> None:
    async def story() -> None:
        async with admin(tmp_path) as to:
            await to.topics.create("orders", 1, {"retention.ms": "5"})
            once: tuple[int, str, list[tuple[str, str | None]]] = (TOPIC, "orders", [])
            assert await replace(to, [once, once]) == [42, 42]
            named = [("segment.ms", "1"), ("segment.ms", "2")]
            assert await replace(to, [(TOPIC, "orders", named)]) == [42]
            assert to.topics.get("orders").configs == {"retention.ms": "5"}  # type: ignore[union-attr]

    run(story)


@pytest.mark.parametrize("types", [[], [2], [4], [8], [16], [32], [2, 4], [1], [99]])
@pytest.mark.parametrize("version", list(LIST_CONFIG_RESOURCES.versions))
def test_resources_are_listed(tmp_path: Path, types: list[int], version: int) -> None:
    async def story() -> None:
        async with admin(tmp_path) as to:
            await to.topics.create("orders", 1)
            await alter(to, GROUP, "g", ("consumer.session.timeout.ms", SET, "50000"))
            await alter(to, METRICS, "m", ("interval.ms", SET, "5000"))
            answer = await to.ask(
                LIST_CONFIG_RESOURCES, version, ListConfigResourcesRequest(resource_types=types)
            )
            there = {TOPIC: "orders", BROKER: "1", LOGGER: "1", METRICS: "m", GROUP: "g"}
            if version == 0:
                types_shown = [METRICS]
            else:
                types_shown = types or list(there)
            if not set(types_shown) <= set(there):
                assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
                assert not answer.config_resources
                return
            assert answer.error_code == 0
            found = {r.resource_type: r.resource_name for r in answer.config_resources}
            assert found == {kind: there[kind] for kind in types_shown}

    run(story)
