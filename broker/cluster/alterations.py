"""What requests do to the configs of a resource, whichever kind it is. Pure.

Source: org.apache.kafka.controller.ConfigurationControlManager.
"""

from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple, TypeAlias

from tailrace.broker.cluster.config_def import InvalidConfig, text_of


class ConfigOp(IntEnum):
    """What IncrementalAlterConfigs does to one config."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class Alteration(NamedTuple):
    """One change of one config."""

    name: str
    op: ConfigOp
    value: str | None


class Changes(NamedTuple):
    """All that one request does to one resource."""

    alterations: Sequence[Alteration]
    whole: bool = False
    """AlterConfigs: what is not named goes back to its default."""


Items: TypeAlias = Callable[[str], tuple[str, ...] | None]
"""Return the items that a list config has now; None for what is no list."""


def altered(overrides: Mapping[str, str], changes: Changes, items: Items) -> dict[str, str | None]:
    """Return the overrides after the changes, not checked yet. Errors: InvalidConfig."""
    result: dict[str, str | None] = {} if changes.whole else dict(overrides)
    for change in changes.alterations:
        if change.op is ConfigOp.DELETE:
            result.pop(change.name, None)
        elif change.op is ConfigOp.SET:
            result[change.name] = change.value
        else:
            result[change.name] = _changed_list(change, items)
    return result


def _changed_list(change: Alteration, items: Items) -> str:
    given = [item.strip() for item in (change.value or "").split(",") if item.strip()]
    found = items(change.name)
    if found is None:
        why = "because its type is not LIST."
        raise InvalidConfig(f"Can't {change.op.name} to key {change.name} {why}")
    now = list(found)
    if change.op is ConfigOp.APPEND:
        now += [item for item in dict.fromkeys(given) if item not in now]
    else:
        now = [item for item in now if item not in given]
    return text_of(tuple(now))
