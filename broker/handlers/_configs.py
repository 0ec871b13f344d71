"""What both requests that alter configs do to one resource."""

from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Protocol, TypeVar

from tailrace.broker.authorization.required import WHY
from tailrace.broker.cluster.admin import MAX_MESSAGE_BYTES, check_batch_size
from tailrace.broker.cluster.alterations import Changes
from tailrace.broker.cluster.loggers import alter_levels
from tailrace.broker.cluster.quorums import quorums_of
from tailrace.broker.cluster.resources import ResourceType, check_broker_name, resource_type
from tailrace.broker.context import RequestContext
from tailrace.broker.errors import KafkaError, admin_error_code
from tailrace.broker.handlers._names import repeated
from tailrace.core.access.acls.model import Operation
from tailrace.core.access.acls.model import ResourceType as AclType
from tailrace.core.errors import CoreError
from tailrace.protocol.errors import ErrorCode


class Resource(Protocol):
    """A resource of either request."""

    resource_type: int
    resource_name: str


R = TypeVar("R", bound=Resource)

RESOURCE_UNITS = 10
"""What it takes to alter one resource."""
CONFIGS_MAX = 1000
"""More than any resource has, names of loggers included: who names more means none."""


async def alter_each(
    ctx: RequestContext,
    resources: Iterable[R],
    changes_of: Callable[[R], Changes],
    *,
    validate_only: bool,
) -> list[tuple[R, ErrorCode, str | None]]:
    """Alter each resource, all of it or nothing, whatever becomes of the others.

    Shape: each with its code and the reason, in order; one that is named twice is refused each
    time. `changes_of` says what is asked of one, or raises KafkaError. Errors: none.
    """
    pace = ctx.pace()
    resources = list(resources)
    named = ((each.resource_type, each.resource_name) for each in resources)
    twice = await repeated(named, pace)
    answers: list[tuple[R, ErrorCode, str | None]] = []
    async for each in pace.each(resources, RESOURCE_UNITS):
        code, why = ErrorCode.NONE, None
        try:
            kind, name = each.resource_type, each.resource_name
            _check_once((kind, name), twice)
            changes = changes_of(each)
            check_access(ctx, Operation.ALTER_CONFIGS, kind, name)
            await _alter(ctx, kind, name, changes, validate_only=validate_only)
        except KafkaError as error:
            code, why = error.code, error.detail
        except CoreError as error:
            code, why = admin_error_code(error), str(error)
        answers.append((each, code, why))
    return answers


def check_access(ctx: RequestContext, operation: Operation, kind: int, name: str) -> None:
    """Refuse a resource with whose configs the client may not do that. Errors: KafkaError.

    Configs of brokers, of their loggers and of metrics subscriptions are the cluster's.
    """
    found = resource_type(kind)
    if found is ResourceType.TOPIC:
        code = ctx.refusal(operation, AclType.TOPIC, name)
    elif found is ResourceType.GROUP:
        code = ctx.refusal(operation, AclType.GROUP, name)
    else:
        code = ctx.cluster_refusal(operation)
    if code:
        raise KafkaError(code, WHY[code])


def _check_once(named: tuple[int, str], twice: Container[tuple[int, str]]) -> None:
    if named in twice:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")


def check_names(names: Sequence[str]) -> None:
    """Refuse a config that is named twice, and more than there are. Errors: KafkaError."""
    if len(names) > CONFIGS_MAX:
        detail = f"{len(names)} configs of one resource, more than {CONFIGS_MAX}"
        raise KafkaError(ErrorCode.INVALID_REQUEST, detail)
    if any(times > 1 for times in Counter(names).values()):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")


def check_values(missing: Iterable[str]) -> None:
    """Refuse configs that are to be set to nothing. Errors: KafkaError."""
    names = ", ".join(missing)
    if names:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {names}")


async def _alter(
    ctx: RequestContext, kind: int, name: str, changes: Changes, *, validate_only: bool
) -> None:
    broker = ctx.broker
    found = resource_type(kind)
    if found is ResourceType.BROKER:
        if name:
            check_broker_name(name, broker.node_id)
        await broker.configs.alter_broker(name, changes, validate_only=validate_only)
    elif found is ResourceType.GROUP:
        await broker.configs.alter_group(name, changes, validate_only=validate_only)
    elif found is ResourceType.CLIENT_METRICS:
        await broker.configs.alter_metrics(name, changes, validate_only=validate_only)
    elif found is ResourceType.BROKER_LOGGER:
        _alter_loggers(ctx, name, changes, validate_only=validate_only)
    else:
        await _alter_topic(ctx, name, changes, validate_only=validate_only)


def _alter_loggers(
    ctx: RequestContext, name: str, changes: Changes, *, validate_only: bool
) -> None:
    if changes.whole:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Unknown resource type BROKER_LOGGER")
    check_broker_name(name, ctx.broker.node_id)
    alter_levels(changes.alterations, validate_only=validate_only)


async def _alter_topic(
    ctx: RequestContext, name: str, changes: Changes, *, validate_only: bool
) -> None:
    if not name:
        detail = "Default topic resources are not allowed."
        raise KafkaError(ErrorCode.INVALID_REQUEST, detail)
    topics = ctx.broker.topics
    if validate_only:
        overrides = topics.check_alter(name, changes)
        await _check_batches(ctx, name, overrides)
        return
    if any(change.name == MAX_MESSAGE_BYTES for change in changes.alterations):
        await _check_batches(ctx, name, topics.check_alter(name, changes))
    await topics.alter_configs(name, changes)


async def _check_batches(ctx: RequestContext, name: str, overrides: Mapping[str, str]) -> None:
    """Refuse batches that are larger than enough bookies take. Errors: KafkaError, CoreError."""
    topic = ctx.broker.topics.get(name)
    if topic is None or MAX_MESSAGE_BYTES not in overrides:
        return
    settings = ctx.broker.topics.defaults.resolve(overrides)
    ensemble_size = quorums_of(topic.replication_factor, settings).ensemble_size
    await check_batch_size(ctx.broker.bookies, settings.max_message_bytes, ensemble_size)
