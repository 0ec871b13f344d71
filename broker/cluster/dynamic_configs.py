"""What is configured while brokers run, and what is in force because of it.

Three layers above the settings that this process was started with: for this broker, for all
brokers, and a group's own. The settings tree and the defaults of topics are made anew with every
change, so that whoever reads them each time acts at once.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Generic, TypeVar

from tailrace.broker.cluster.alterations import Changes
from tailrace.broker.cluster.client_metrics_configs import altered_metrics
from tailrace.broker.cluster.config_def import InvalidConfig
from tailrace.broker.cluster.config_entities import ConfigEntities, EntityKind
from tailrace.broker.cluster.dynamic_rules import (
    OWN,
    acts_on_broker,
    altered_broker,
    check_defaults,
    check_for_all,
)
from tailrace.broker.cluster.group_configs import GroupConfigs, altered_group, group_configs
from tailrace.broker.cluster.settings import ConfigSource, Layer, TopicDefaults
from tailrace.broker.cluster.topics import TopicRegistry
from tailrace.broker.errors import KafkaError
from tailrace.core.runtime.config import Assignment, ConfigError, load, values_of
from tailrace.core.runtime.listeners import tell
from tailrace.protocol.errors import ErrorCode

logger = logging.getLogger(__name__)

Tree = TypeVar("Tree")
ALL_BROKERS = ""
"""Name of the resource that stands for every broker."""


class DynamicConfigs(Generic[Tree]):
    """The configs that requests change. Look-ups are plain calls. All calls come from the loop."""

    def __init__(
        self, started_with: Tree, node_id: int, entities: ConfigEntities, topics: TopicRegistry
    ) -> None:
        """`started_with`: this broker's settings tree."""
        self.started_with = started_with
        self.in_force = started_with
        self.entities = entities
        self._node_id = node_id
        self._topics = topics
        self._values = values_of(started_with)
        self._listeners: list[Callable[[Tree], None]] = []
        self._checks: list[Callable[[Tree, Tree], None]] = []
        self._slow_checks: list[Callable[[Tree, Tree], Awaitable[None]]] = []
        entities.listen(self._on_changed)

    def listen(self, listener: Callable[[Tree], None]) -> None:
        """Tell `listener` of every later change of this broker's settings."""
        self._listeners.append(listener)

    def check_with(self, check: Callable[[Tree, Tree], None]) -> None:
        """Ask `check` about each later change: settings in force, wanted ones; ConfigError: no."""
        self._checks.append(check)

    def check_slowly_with(self, check: Callable[[Tree, Tree], Awaitable[None]]) -> None:
        """As `check_with`, of what reads files: it is asked once, before a change is tried."""
        self._slow_checks.append(check)

    async def start(self) -> None:
        """Load what was configured and put it in force. Errors: CorruptData, Unavailable."""
        await self.entities.start()
        self._apply()

    def group_config(self, group_id: str) -> GroupConfigs:
        """Return what holds for a consumer group."""
        return group_configs(self.entities.get(EntityKind.GROUP, group_id), self._values)

    async def alter_broker(self, name: str, changes: Changes, *, validate_only: bool) -> None:
        """Change what is given to this broker, or to all. Errors: KafkaError, CoreError."""

        def change(before: Mapping[str, str]) -> dict[str, str]:
            return self._altered(name, changes, before)[0]

        _, wanted = self._altered(name, changes, self.entities.get(EntityKind.BROKER, name))
        try:
            for check in self._slow_checks:
                await check(self.in_force, wanted)
        except ConfigError as error:
            raise KafkaError(ErrorCode.INVALID_REQUEST, str(error)) from error
        await self._change(EntityKind.BROKER, name, change, validate_only=validate_only)

    def _altered(
        self, name: str, changes: Changes, before: Mapping[str, str]
    ) -> tuple[dict[str, str], Tree]:
        """Return a resource's configs after changes, and this broker's settings with them."""
        after = altered_broker(before, changes, self._topics.defaults)
        if name == ALL_BROKERS:
            check_for_all(after)
        layers = self._layers({name: after})
        check_defaults(self._topics.defaults.with_dynamic(layers))
        try:
            wanted = self._settings(layers)
            for check in self._checks:
                check(self.in_force, wanted)
        except ConfigError as error:
            raise KafkaError(ErrorCode.INVALID_REQUEST, str(error)) from error
        return after, wanted

    async def alter_group(self, name: str, changes: Changes, *, validate_only: bool) -> None:
        """Change a group's configs. Errors: KafkaError, CoreError."""
        if not name:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Default group resources are not allowed.")
        change = partial(altered_group, changes=changes, broker=self._values)
        await self._change(EntityKind.GROUP, name, _refusing(change), validate_only=validate_only)

    async def alter_metrics(self, name: str, changes: Changes, *, validate_only: bool) -> None:
        """Change a metrics subscription. Errors: KafkaError, CoreError."""
        if not name:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Subscription name can't be empty")
        change = _refusing(partial(altered_metrics, changes=changes))
        await self._change(EntityKind.CLIENT_METRICS, name, change, validate_only=validate_only)

    async def _change(
        self,
        kind: EntityKind,
        name: str,
        change: Callable[[Mapping[str, str]], dict[str, str]],
        *,
        validate_only: bool,
    ) -> None:
        if validate_only:
            change(self.entities.get(kind, name))
        else:
            await self.entities.change(kind, name, change)

    def _on_changed(self, kind: EntityKind, name: str) -> None:
        if kind is EntityKind.BROKER and name in (ALL_BROKERS, str(self._node_id)):
            self._apply()

    def _layers(self, instead: Mapping[str, Mapping[str, str]]) -> list[Layer]:
        """Return what brokers were given, the stronger first; `instead`: by name, to try it out."""
        names = {
            str(self._node_id): ConfigSource.DYNAMIC_BROKER,
            ALL_BROKERS: ConfigSource.DYNAMIC_DEFAULT_BROKER,
        }
        return [
            Layer(source, instead.get(name, self.entities.get(EntityKind.BROKER, name)))
            for name, source in names.items()
        ]

    def _apply(self) -> None:
        layers = self._layers({})
        try:
            self.in_force = self._settings(layers)
        except ConfigError as error:  # another release stored it
            logger.warning("broker configs not in force reason=%s", error)
        self._values = values_of(self.in_force)
        self._topics.use_defaults(self._usable(layers))
        for listener in self._listeners:
            tell("configs", listener, self.in_force)

    def _settings(self, layers: list[Layer]) -> Tree:
        """Return the settings tree as these layers have it. Errors: ConfigError."""
        values = values_of(self.started_with)
        given = {
            name: value
            for layer in reversed(layers)
            for name, value in layer.values.items()
            if acts_on_broker(name) and (name in values or name not in OWN)
        }
        assignments = [
            Assignment(name, value, "a dynamic config") for name, value in (values | given).items()
        ]
        return load(type(self.started_with), assignments).config

    def _usable(self, layers: list[Layer]) -> TopicDefaults:
        """Return the topics' defaults; what another release stored may mean nothing to this one."""
        usable = []
        for layer in layers:
            values = {}
            for name, value in layer.values.items():
                try:
                    altered_broker({name: value}, Changes(()), self._topics.defaults)
                except KafkaError as error:
                    logger.warning("broker config not in force name=%s reason=%s", name, error)
                else:
                    values[name] = value
            usable.append(Layer(layer.source, values))
        return self._topics.defaults.with_dynamic(usable)


def _refusing(
    change: Callable[[Mapping[str, str]], dict[str, str]],
) -> Callable[[Mapping[str, str]], dict[str, str]]:
    def refusing(before: Mapping[str, str]) -> dict[str, str]:
        try:
            return change(before)
        except InvalidConfig as error:
            raise KafkaError(ErrorCode.INVALID_CONFIG, str(error)) from error

    return refusing
