"""DeleteTopics, API 20, v1-6.

Kept: by name (v1-5) or by name or id (v6), Kafka's codes for both, neither and duplicates, and
TOPIC_DELETION_DISABLED. Not kept: `timeout_ms`; the streams are gone from the metadata before the
answer, and their bytes go when the bookies next collect.
"""

from collections.abc import Collection, Iterator
from typing import NamedTuple

from tailrace.broker.context import RequestContext
from tailrace.broker.errors import KafkaError, admin_error_code
from tailrace.broker.handlers import handles
from tailrace.broker.handlers._names import in_order, repeated
from tailrace.core.access.acls.model import Operation, ResourceType
from tailrace.core.errors import CoreError
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.kafka.apis import DELETE_TOPICS
from tailrace.protocol.kafka.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)

NO_ID = bytes(16)
QUOTA_STRICT_SINCE = 5


class _Named(NamedTuple):
    """A topic as the request names it, with what could be found out."""

    name: str | None
    topic_id: bytes
    code: ErrorCode = ErrorCode.NONE
    message: str | None = None
    is_by_id: bool = False

    @property
    def is_denied_by_id(self) -> bool:
        """Whether nothing is said of the name that an id stands for."""
        return self.is_by_id and self.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED


TOPIC_UNITS = 10
"""What it takes to delete one topic."""


@handles(DELETE_TOPICS)
async def delete_topics(ctx: RequestContext, request: DeleteTopicsRequest) -> DeleteTopicsResponse:
    """Delete each topic, or say why not."""
    pace = ctx.pace()
    by_id = (state.topic_id for state in request.topics if state.name is None)
    ids_twice = await repeated(by_id, pace) - {NO_ID}
    asked = [topic async for topic in pace.each(_resolve(ctx, request, ids_twice))]
    if not ctx.may(Operation.DELETE):
        asked = [_checked(ctx, topic) async for topic in pace.each(asked)]
    named = (t.name for t in asked if t.name is not None and not t.is_denied_by_id)
    twice = await repeated(named, pace)
    results = [
        _result(_Named(name, NO_ID, ErrorCode.INVALID_REQUEST, "Duplicate topic name."))
        async for name in pace.each(await in_order(twice, pace))
    ]
    results += [
        _result(await _delete(ctx, topic))
        async for topic in pace.each(asked, TOPIC_UNITS)
        if topic.is_denied_by_id or topic.name not in twice
    ]
    return DeleteTopicsResponse(responses=results)


def _resolve(
    ctx: RequestContext, request: DeleteTopicsRequest, ids_twice: Collection[bytes]
) -> Iterator[_Named]:
    """Find what the request names; an id that it names twice is one refusal, as in Kafka."""
    for topic_id in sorted(ids_twice):
        yield _Named(None, topic_id, ErrorCode.INVALID_REQUEST, "Duplicate topic id.")
    for name in request.topic_names:
        yield _by_name(ctx, name)
    for state in request.topics:
        if state.name is not None and state.topic_id != NO_ID:
            message = "You may not specify both topic name and topic id."
            yield _Named(state.name, state.topic_id, ErrorCode.INVALID_REQUEST, message)
        elif state.name is not None:
            yield _by_name(ctx, state.name)
        elif state.topic_id in ids_twice:
            continue
        elif state.topic_id != NO_ID:
            yield _by_id(ctx, state.topic_id)
        else:
            message = "Neither topic name nor id were specified."
            yield _Named(None, NO_ID, ErrorCode.INVALID_REQUEST, message)


def _by_name(ctx: RequestContext, name: str) -> _Named:
    topic = ctx.broker.topics.get(name)
    return _Named(name, topic.topic_id if topic else NO_ID)


def _by_id(ctx: RequestContext, topic_id: bytes) -> _Named:
    topic = ctx.broker.topics.by_id(topic_id)
    if topic is None:
        message = "This server does not host this topic ID."
        return _Named(None, topic_id, ErrorCode.UNKNOWN_TOPIC_ID, message)
    return _Named(topic.name, topic_id, is_by_id=True)


def _checked(ctx: RequestContext, topic: _Named) -> _Named:
    """Refuse what the client may not delete; it hears no name or id that it may not know."""
    if topic.code is not ErrorCode.NONE or topic.name is None:
        return topic
    if not ctx.allows(Operation.DESCRIBE, ResourceType.TOPIC, topic.name):
        denied = topic._replace(code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        return denied._replace(name=None) if topic.is_by_id else denied._replace(topic_id=NO_ID)
    if topic.topic_id == NO_ID or ctx.allows(Operation.DELETE, ResourceType.TOPIC, topic.name):
        return topic  # one that is not there is what the client hears
    denied = topic._replace(code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    return denied if topic.is_by_id else denied._replace(topic_id=NO_ID)


async def _delete(ctx: RequestContext, topic: _Named) -> _Named:
    if topic.code is not ErrorCode.NONE or topic.name is None:
        return topic
    if not ctx.broker.config.topics.delete_enabled:
        message = "Topic deletion is disabled."
        return topic._replace(code=ErrorCode.TOPIC_DELETION_DISABLED, message=message)
    try:
        _charge(ctx, topic.name)
        await ctx.broker.topics.delete(topic.name, topic.topic_id if topic.is_by_id else None)
    except KafkaError as error:
        return topic._replace(code=error.code, message=error.detail)
    except CoreError as error:
        return topic._replace(code=admin_error_code(error), message=str(error))
    return topic


def _charge(ctx: RequestContext, name: str) -> None:
    topic = ctx.broker.topics.get(name)
    if ctx.quota is not None and topic is not None:
        strict = ctx.header.api_version >= QUOTA_STRICT_SINCE
        ctx.quota.mutate(topic.partition_count, strict=strict)


def _result(topic: _Named) -> DeletableTopicResult:
    return DeletableTopicResult(
        name=topic.name,
        topic_id=topic.topic_id,
        error_code=topic.code,
        error_message=topic.message,
    )
