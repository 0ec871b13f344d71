"""DescribeConfigs, API 32, v1-4.

Kept: topics, this broker, groups, loggers, metrics subscriptions; sources and synonyms with the
value in force first; types and documentation (v3); no keys or an empty list of keys means all. The
empty broker name means what was given to all brokers while they ran.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final, TypeAlias

from broker.cluster.broker_configs import BrokerEntry, Fact, broker_entries
from broker.cluster.client_metrics_configs import shown_metrics
from broker.cluster.config_def import ConfigType, text_of
from broker.cluster.config_entities import EntityKind
from broker.cluster.group_configs import group_entries
from broker.cluster.loggers import logger_levels
from broker.cluster.names import name_fault
from broker.cluster.resources import ResourceType, check_broker_name, resource_type
from broker.cluster.settings import ConfigSource, SourcedValue
from broker.cluster.topic_configs import topic_configs_shown
from broker.cluster.topics import Topic
from broker.context import RequestContext
from broker.errors import KafkaError
from broker.handlers import handles
from protocol.errors import ErrorCode
from protocol.kafka.apis import DESCRIBE_CONFIGS
from protocol.kafka.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

QUORUMS_DOC = "Bookies of a log segment / copies of each batch / copies on disk before its answer."
RESOURCES_PER_TURN: Final = 32
"""Some 5 ms: a tool may ask for every topic there is."""
Entries: TypeAlias = Iterator[DescribeConfigsResourceResult]
Describe: TypeAlias = Callable[[RequestContext, str, Collection[str]], Entries]
"""Yields the configs of a resource; the keys that are asked for (none: all) may save work."""


@handles(DESCRIBE_CONFIGS)
async def describe_configs(
    ctx: RequestContext, request: DescribeConfigsRequest
) -> DescribeConfigsResponse:
    """Describe each resource, or say why not; others get their turns in between."""
    results = []
    for number, resource in enumerate(request.resources, 1):
        results.append(_result(ctx, resource, request))
        if number % RESOURCES_PER_TURN == 0:
            await asyncio.sleep(0)
    return DescribeConfigsResponse(results=results)


def _result(
    ctx: RequestContext, resource: DescribeConfigsResource, request: DescribeConfigsRequest
) -> DescribeConfigsResult:
    result = DescribeConfigsResult(
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        error_message=None,
    )
    try:
        describe = _DESCRIBE[resource_type(resource.resource_type)]
        keys = frozenset(resource.configuration_keys or ())
        found = describe(ctx, resource.resource_name, keys)
        result.configs = list(_as_asked(found, keys, request))
    except KafkaError as error:
        result.error_code, result.error_message = error.code, error.detail
    return result


def _as_asked(
    found: Iterable[DescribeConfigsResourceResult],
    keys: Collection[str],
    request: DescribeConfigsRequest,
) -> Entries:
    for config in found:
        if keys and config.name not in keys:
            continue
        if not request.include_synonyms:
            config.synonyms = ()
        if not request.include_documentation:
            config.documentation = None
        yield config


def _topic(ctx: RequestContext, name: str, keys: Collection[str]) -> Entries:
    topic = ctx.broker.topics.get(name)
    if topic is None:
        fault = name_fault(name)
        if fault:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, fault)
        message = "This server does not host this topic-partition."
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message)
    defaults = ctx.broker.topics.defaults
    yield _quorums(topic)
    yield from (
        _entry(
            config.name,
            text_of(defaults.typed(config, topic.configs)),
            config.kind,
            defaults.sources(config, topic.configs),
            config.doc,
        )
        for config in topic_configs_shown(topic.configs)
        if not keys or config.name in keys
    )


def _quorums(topic: Topic) -> DescribeConfigsResourceResult:
    """Say how the topic is kept. It is no config: read-only, and a default, so nobody copies it."""
    result = _entry("tailrace.quorums", topic.quorums.text, ConfigType.STRING, (), QUORUMS_DOC)
    result.read_only = True
    return result


def _broker(ctx: RequestContext, name: str, _keys: Collection[str]) -> Entries:
    broker = ctx.broker
    if name:
        check_broker_name(name, broker.node_id, f"{broker.node_id} or empty string")
    for entry in _broker_entries(ctx):
        places = [
            place
            for place in entry.synonyms
            if name or place.source is ConfigSource.DYNAMIC_DEFAULT_BROKER
        ]
        if name or places:
            value = entry.value if name else places[0].value
            result = _entry(entry.name, value, entry.kind, places, entry.doc)
            result.read_only = entry.read_only
            yield result


def _broker_entries(ctx: RequestContext) -> list[BrokerEntry]:
    broker = ctx.broker
    return broker_entries(broker.configs.started_with, _facts(ctx), broker.topics.defaults)


def _facts(ctx: RequestContext) -> Mapping[str, Fact]:
    at = ctx.broker.advertised
    listener = f"{ctx.connection.listener}://{at.host}:{at.port}"
    return {
        "broker.id": Fact(ConfigType.INT, str(ctx.broker.node_id)),
        "advertised.listeners": Fact(ConfigType.LIST, listener),
        "listeners": Fact(ConfigType.LIST, listener),
        "log.dirs": Fact(ConfigType.LIST, ctx.broker.log_dir),
        "process.roles": Fact(ConfigType.LIST, "broker,controller"),
    }


def _group(ctx: RequestContext, name: str, _keys: Collection[str]) -> Entries:
    if not name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Group name must not be empty")
    given = ctx.broker.configs.entities.get(EntityKind.GROUP, name)
    of_broker = {entry.name: entry.synonyms for entry in _broker_entries(ctx)}
    for entry in group_entries(given, of_broker):
        yield _entry(entry.name, entry.value, ConfigType.INT, entry.synonyms, entry.doc)


def _metrics(ctx: RequestContext, name: str, _keys: Collection[str]) -> Entries:
    if not name:
        message = "Client metrics subscription name must not be empty"
        raise KafkaError(ErrorCode.INVALID_REQUEST, message)
    given = ctx.broker.configs.entities.get(EntityKind.CLIENT_METRICS, name)
    for key, value, config, is_given in shown_metrics(given):
        source = SourcedValue(key, value, ConfigSource.CLIENT_METRICS)
        yield _entry(key, value, config.kind, (source,) if is_given else (), config.doc)


def _loggers(ctx: RequestContext, name: str, _keys: Collection[str]) -> Entries:
    if not name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Broker id must not be empty")
    check_broker_name(name, ctx.broker.node_id)
    for logger, level in logger_levels().items():
        result = _entry(logger, level, ConfigType.UNKNOWN, (), "")
        result.config_source = ConfigSource.BROKER_LOGGER
        yield result


_DESCRIBE: Final[Mapping[ResourceType, Describe]] = MappingProxyType(
    {
        ResourceType.TOPIC: _topic,
        ResourceType.BROKER: _broker,
        ResourceType.GROUP: _group,
        ResourceType.CLIENT_METRICS: _metrics,
        ResourceType.BROKER_LOGGER: _loggers,
    }
)


def _entry(
    name: str,
    value: str | None,
    kind: ConfigType,
    sources: Iterable[SourcedValue],
    doc: str,
) -> DescribeConfigsResourceResult:
    places = [DescribeConfigsSynonym(name=n, value=v, source=s) for n, v, s in sources]
    return DescribeConfigsResourceResult(
        name=name,
        value=value,
        config_source=places[0].source if places else ConfigSource.DEFAULT,
        synonyms=places,
        config_type=kind,
        documentation=doc,
    )
