"""DescribeConfigs, API 32, v1-4.

Kept: topics, this broker, groups, loggers, metrics subscriptions; sources and synonyms with the
value in force first; types and documentation (v3); no keys or an empty list of keys means all. The
empty broker name means what was given to all brokers while they ran. Not kept: a resource that is
named again, with the same keys, is answered once; clients tell answers apart by the names in them.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import cached_property
from types import MappingProxyType
from typing import Final, TypeAlias

from tailrace.broker.cluster.broker_configs import BrokerEntry, Fact, broker_entries
from tailrace.broker.cluster.client_metrics_configs import shown_metrics
from tailrace.broker.cluster.config_def import ConfigType, text_of
from tailrace.broker.cluster.config_entities import EntityKind
from tailrace.broker.cluster.group_configs import group_entries
from tailrace.broker.cluster.loggers import logger_levels
from tailrace.broker.cluster.names import name_fault
from tailrace.broker.cluster.resources import ResourceType, check_broker_name, resource_type
from tailrace.broker.cluster.settings import ConfigSource, SourcedValue
from tailrace.broker.cluster.topic import Topic
from tailrace.broker.cluster.topic_configs import topic_configs_shown
from tailrace.broker.context import RequestContext
from tailrace.broker.errors import KafkaError
from tailrace.broker.handlers import handles
from tailrace.broker.handlers._configs import check_access
from tailrace.broker.listeners import Listener
from tailrace.core.access.acls.model import Operation
from tailrace.core.runtime.loop_turns import Pace
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.kafka.apis import DESCRIBE_CONFIGS
from tailrace.protocol.kafka.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

QUORUMS_DOC = "Bookies of a log segment / copies of each batch / copies on disk before its answer."
CONFIG_UNITS: Final = 3
"""What it takes to describe one config."""
Entries: TypeAlias = Iterator[DescribeConfigsResourceResult]


class _Shared:
    """What the resources of one request share."""

    def __init__(self, ctx: RequestContext) -> None:
        self.broker = ctx.broker
        self.ctx = ctx

    @cached_property
    def broker_entries(self) -> list[BrokerEntry]:
        """All configs of this broker. Cost: some 3 ms, once."""
        configs, defaults = self.broker.configs, self.broker.topics.defaults
        return broker_entries(configs.started_with, _facts(self.ctx), defaults)


Describe: TypeAlias = Callable[[_Shared, str, Collection[str]], Entries]
"""Yields the configs of a resource; the keys that are asked for (none: all) may save work."""


@handles(DESCRIBE_CONFIGS)
async def describe_configs(
    ctx: RequestContext, request: DescribeConfigsRequest
) -> DescribeConfigsResponse:
    """Describe each resource, or say why not; others get their turns in between."""
    shared, pace = _Shared(ctx), ctx.pace()
    results = []
    for resource in await _distinct(request.resources, pace):
        result = _result(shared, resource, request)
        await pace.spend(1 + CONFIG_UNITS * len(result.configs))
        results.append(result)
    return DescribeConfigsResponse(results=results)


async def _distinct(
    resources: Iterable[DescribeConfigsResource], pace: Pace
) -> Iterable[DescribeConfigsResource]:
    """Leave out what is asked for again."""
    asked = {
        (each.resource_type, each.resource_name, frozenset(each.configuration_keys or ())): each
        async for each in pace.each(resources)
    }
    return asked.values()


def _result(
    shared: _Shared, resource: DescribeConfigsResource, request: DescribeConfigsRequest
) -> DescribeConfigsResult:
    result = DescribeConfigsResult(
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        error_message=None,
    )
    try:
        kind, name = resource.resource_type, resource.resource_name
        describe = _DESCRIBE[resource_type(kind)]
        check_access(shared.ctx, Operation.DESCRIBE_CONFIGS, kind, name)
        keys = frozenset(resource.configuration_keys or ())
        found = describe(shared, name, keys)
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


def _topic(shared: _Shared, name: str, keys: Collection[str]) -> Entries:
    topic = shared.broker.topics.get(name)
    if topic is None:
        fault = name_fault(name)
        if fault:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, fault)
        message = "This server does not host this topic-partition."
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message)
    defaults = shared.broker.topics.defaults
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


def _broker(shared: _Shared, name: str, keys: Collection[str]) -> Entries:
    node_id = shared.broker.node_id
    if name:
        check_broker_name(name, node_id, f"{node_id} or empty string")
    for entry in shared.broker_entries:
        if keys and entry.name not in keys:
            continue
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


def _facts(ctx: RequestContext) -> Mapping[str, Fact]:
    named = ctx.broker.advertised.named.items()
    told = ",".join(str(Listener(name, *endpoint)) for name, endpoint in named)
    return {
        "broker.id": Fact(ConfigType.INT, str(ctx.broker.node_id)),
        "advertised.listeners": Fact(ConfigType.LIST, told),
        "log.dirs": Fact(ConfigType.LIST, ctx.broker.log_dir),
        "process.roles": Fact(ConfigType.LIST, "broker,controller"),
    }


def _group(shared: _Shared, name: str, _keys: Collection[str]) -> Entries:
    if not name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Group name must not be empty")
    given = shared.broker.configs.entities.get(EntityKind.GROUP, name)
    of_broker = {entry.name: entry.synonyms for entry in shared.broker_entries}
    for entry in group_entries(given, of_broker):
        yield _entry(entry.name, entry.value, ConfigType.INT, entry.synonyms, entry.doc)


def _metrics(shared: _Shared, name: str, _keys: Collection[str]) -> Entries:
    if not name:
        message = "Client metrics subscription name must not be empty"
        raise KafkaError(ErrorCode.INVALID_REQUEST, message)
    given = shared.broker.configs.entities.get(EntityKind.CLIENT_METRICS, name)
    for key, value, config, is_given in shown_metrics(given):
        source = SourcedValue(key, value, ConfigSource.CLIENT_METRICS)
        yield _entry(key, value, config.kind, (source,) if is_given else (), config.doc)


def _loggers(shared: _Shared, name: str, _keys: Collection[str]) -> Entries:
    if not name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Broker id must not be empty")
    check_broker_name(name, shared.broker.node_id)
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
        is_sensitive=kind is ConfigType.PASSWORD,
        synonyms=places,
        config_type=kind,
        documentation=doc,
    )
