"""CreateTopics, API 19, v2-7.

Kept: Kafka's checks, in its order and with its codes, per topic; `validate_only`; -1 for the
broker's own numbers (v4); the effective configs (v5) and the topic id (v7) in the answer.
Not kept: `timeout_ms`. A topic is there, on disk, before the answer, so no client sees
REQUEST_TIMED_OUT for a topic that comes into being a moment later. No policy class.
"""

import logging
from collections.abc import Mapping

from tailrace.broker.cluster.admin import (
    MAX_MESSAGE_BYTES,
    Asked,
    Nodes,
    Shape,
    check_batch_size,
    check_ensemble,
    check_total,
    shape_of,
)
from tailrace.broker.cluster.config_def import text_of
from tailrace.broker.cluster.quorums import quorums_of
from tailrace.broker.cluster.settings import ConfigSource, TopicDefaults
from tailrace.broker.cluster.topic_configs import topic_configs_shown
from tailrace.broker.context import RequestContext
from tailrace.broker.errors import KafkaError, admin_error_code
from tailrace.broker.handlers import handles
from tailrace.broker.handlers._names import in_order, repeated
from tailrace.core.access.acls.model import Operation, ResourceType
from tailrace.core.errors import CoreError
from tailrace.core.runtime.loop_turns import Pace
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.kafka.apis import CREATE_TOPICS
from tailrace.protocol.kafka.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

logger = logging.getLogger(__name__)

QUOTA_STRICT_SINCE = 6
"""From this version on a client hears that its quota is exhausted; before, it only waits."""

TOPIC_UNITS = 50
"""What it takes to create one topic, and to say its configs."""


@handles(CREATE_TOPICS)
async def create_topics(ctx: RequestContext, request: CreateTopicsRequest) -> CreateTopicsResponse:
    """Create each topic, or say why not; one topic's failure touches no other."""
    pace = ctx.pace()
    counts = [
        len(topic.assignments) or topic.num_partitions async for topic in pace.each(request.topics)
    ]
    try:
        check_total(counts, ctx.broker.config.num_partitions)
    except KafkaError as error:
        names = dict.fromkeys(topic.name for topic in request.topics)
        refusals = [_failed(name, error.code, error.detail) async for name in pace.each(names)]
        return CreateTopicsResponse(topics=refusals)
    twice = await repeated((topic.name for topic in request.topics), pace)
    results = [
        _failed(name, ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
        async for name in pace.each(await in_order(twice, pace))
    ]
    may_all = ctx.may(Operation.CREATE)
    async for topic in pace.each(request.topics, TOPIC_UNITS):
        if topic.name in twice:
            continue
        if may_all or ctx.allows(Operation.CREATE, ResourceType.TOPIC, topic.name):
            results.append(await _result(ctx, topic, pace, validate_only=request.validate_only))
        else:
            code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            results.append(_failed(topic.name, code, "Authorization failed."))
    return CreateTopicsResponse(topics=results)


async def _result(
    ctx: RequestContext, topic: CreatableTopic, pace: Pace, *, validate_only: bool
) -> CreatableTopicResult:
    try:
        return await _create(ctx, topic, pace, validate_only=validate_only)
    except KafkaError as error:
        return _failed(topic.name, error.code, error.detail)
    except CoreError as error:
        return _failed(topic.name, admin_error_code(error), str(error))


async def _create(
    ctx: RequestContext, topic: CreatableTopic, pace: Pace, *, validate_only: bool
) -> CreatableTopicResult:
    topics, config = ctx.broker.topics, ctx.broker.config
    assignments = await _assignments(topic, pace)
    asked = Asked(topic.num_partitions, topic.replication_factor, assignments)
    configs = {entry.name: entry.value for entry in topic.configs}
    defaults = Shape(config.num_partitions, config.topics.replication_factor)
    topics.check_create(topic.name, configs)  # before the size, as Kafka does
    brokers = ctx.broker.routes.live.ids
    nodes = Nodes(brokers, len(await ctx.broker.bookies.available()))
    shape = shape_of(asked, defaults, config.topics, nodes)
    partitions, replication_factor = shape
    if replication_factor < asked.replication_factor:
        logger.warning(
            "replication factor clamped topic=%s asked=%d bookies=%d",
            topic.name, asked.replication_factor, nodes.bookies,
        )  # fmt: skip
    overrides = topics.check_create(topic.name, configs, replication_factor)
    settings = topics.defaults.resolve(overrides)
    quorums = quorums_of(replication_factor, settings)
    check_ensemble(quorums.ensemble_size, nodes.bookies)
    if MAX_MESSAGE_BYTES in overrides:
        await check_batch_size(
            ctx.broker.bookies, settings.max_message_bytes, quorums.ensemble_size
        )
    if ctx.quota is not None:
        ctx.quota.mutate(partitions, strict=ctx.header.api_version >= QUOTA_STRICT_SINCE)
    topic_id = bytes(16)
    if not validate_only:
        made = await topics.create(
            topic.name, partitions, configs, replication_factor, asked.assignments
        )
        topic_id = made.topic_id
    if code := ctx.refusal(Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, topic.name):
        return CreatableTopicResult(
            name=topic.name, topic_id=topic_id, error_message=None, topic_config_error_code=code
        )
    return CreatableTopicResult(
        name=topic.name,
        topic_id=topic_id,
        error_message=None,
        num_partitions=partitions,
        replication_factor=replication_factor,
        configs=_effective(topics.defaults, overrides),
    )


async def _assignments(topic: CreatableTopic, pace: Pace) -> dict[int, tuple[int, ...]]:
    twice = await repeated((entry.partition_index for entry in topic.assignments), pace)
    if twice:
        message = f"Found multiple manual partition assignments for partition {min(twice)}"
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
    return {
        entry.partition_index: tuple(entry.broker_ids)
        async for entry in pace.each(topic.assignments)
    }


def _effective(
    defaults: TopicDefaults, overrides: Mapping[str, str]
) -> list[CreatableTopicConfigs]:
    shown = []
    for config in topic_configs_shown(overrides):
        sources = defaults.sources(config, overrides)
        shown.append(
            CreatableTopicConfigs(
                name=config.name,
                value=text_of(defaults.typed(config, overrides)),
                config_source=sources[0].source if sources else ConfigSource.DEFAULT,
            )
        )
    return shown


def _failed(name: str, code: ErrorCode, message: str) -> CreatableTopicResult:
    return CreatableTopicResult(name=name, error_code=code, error_message=message)
