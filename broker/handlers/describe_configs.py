"""DescribeConfigs, API 32, v1-4.

Kept: topics and this broker; sources and synonyms with the value in force first; types and
documentation (v3); no keys or an empty list of keys means all. The empty broker name means the
cluster-wide dynamic defaults: there are none, so it is an empty list.
Not kept: resources that are not here (loggers, client metrics, groups) get INVALID_REQUEST.
"""

from collections.abc import Iterable, Iterator

from broker.cluster.broker_configs import Fact, broker_entries
from broker.cluster.config_def import ConfigType, text_of
from broker.cluster.names import name_fault
from broker.cluster.resources import ResourceType, check_broker_name, unsupported
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


@handles(DESCRIBE_CONFIGS)
def describe_configs(
    ctx: RequestContext, request: DescribeConfigsRequest
) -> DescribeConfigsResponse:
    """Describe each resource, or say why not."""
    return DescribeConfigsResponse(
        results=[_result(ctx, resource, request) for resource in request.resources]
    )


def _result(
    ctx: RequestContext, resource: DescribeConfigsResource, request: DescribeConfigsRequest
) -> DescribeConfigsResult:
    result = DescribeConfigsResult(
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        error_message=None,
    )
    try:
        found = _describe(ctx, resource)
        result.configs = list(_wanted(found, resource, request))
    except KafkaError as error:
        result.error_code, result.error_message = error.code, error.detail
    return result


def _describe(
    ctx: RequestContext, resource: DescribeConfigsResource
) -> Iterator[DescribeConfigsResourceResult]:
    if resource.resource_type == ResourceType.TOPIC:
        return _topic(ctx, resource.resource_name)
    if resource.resource_type == ResourceType.BROKER:
        check_broker_name(resource.resource_name, ctx.broker.node_id)
        return _broker(ctx) if resource.resource_name else iter(())
    raise unsupported(resource.resource_type)


def _wanted(
    found: Iterable[DescribeConfigsResourceResult],
    resource: DescribeConfigsResource,
    request: DescribeConfigsRequest,
) -> Iterator[DescribeConfigsResourceResult]:
    keys = set(resource.configuration_keys or ())
    for config in found:
        if keys and config.name not in keys:
            continue
        if not request.include_synonyms:
            config.synonyms = ()
        if not request.include_documentation:
            config.documentation = None
        yield config


def _topic(ctx: RequestContext, name: str) -> Iterator[DescribeConfigsResourceResult]:
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
    )


def _quorums(topic: Topic) -> DescribeConfigsResourceResult:
    """Say how the topic is kept. It is no config: read-only, and a default, so nobody copies it."""
    result = _entry("tailrace.quorums", topic.quorums.text, ConfigType.STRING, (), QUORUMS_DOC)
    result.read_only = True
    return result


def _broker(ctx: RequestContext) -> Iterator[DescribeConfigsResourceResult]:
    at = ctx.broker.advertised
    facts = {
        "broker.id": Fact(ConfigType.INT, str(ctx.broker.node_id)),
        "advertised.listeners": Fact(
            ConfigType.LIST, f"{ctx.connection.listener}://{at.host}:{at.port}"
        ),
        "process.roles": Fact(ConfigType.LIST, "broker,controller"),
    }
    for entry in broker_entries(ctx.broker.config, facts, ctx.broker.topics.defaults):
        result = _entry(entry.name, entry.value, entry.kind, entry.synonyms, entry.doc)
        result.read_only = True
        yield result


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
