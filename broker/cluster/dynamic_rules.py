"""Which broker configs can change while brokers run, for one broker or for all, and to what. Pure.

Those that Kafka can change and that act here: the defaults of topic configs, and a few of the
broker's own, with the certificates of its listeners (`listener.name.<name>.ssl.*`, of one broker);
and of those that Kafka does not have, the cleaner's courtesy. What Kafka can change and what is not
here (threads) is refused as Kafka refuses what it cannot
change, but for what tools and tests set as a matter of course (`INERT`); and so is a name that
nobody knows: there are no plug-ins that might know it.
Source: kafka.server.DynamicBrokerConfig, DynamicConfig.Broker.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from tailrace.broker.cluster.alterations import Changes, altered
from tailrace.broker.cluster.config_def import (
    Check,
    ConfigType,
    InvalidConfig,
    at_least,
    parse,
    refuse,
    text_of,
)
from tailrace.broker.cluster.settings import TopicDefaults, check_overrides
from tailrace.broker.cluster.topic_configs import TOPIC_CONFIGS, TopicConfig
from tailrace.broker.errors import KafkaError
from tailrace.broker.listener_settings import is_dynamic_listener_setting
from tailrace.protocol.errors import ErrorCode


class DynamicSetting(NamedTuple):
    """A setting of the broker itself that acts as soon as it is changed."""

    kind: ConfigType
    check: Check | None = None

    def parse(self, name: str, text: str) -> Any:
        """Return the typed value of a text. Errors: InvalidConfig."""
        value = parse(name, self.kind, text)
        why = self.check(value) if self.check else None
        if why:
            raise refuse(name, value, why)
        return value


OWN: Final[Mapping[str, DynamicSetting]] = MappingProxyType(
    {
        "group.consumer.assignment.interval.ms": DynamicSetting(ConfigType.INT, at_least(0)),
        "log.cleaner.backoff.ms": DynamicSetting(ConfigType.LONG, at_least(0)),
        "log.cleaner.dedupe.buffer.size": DynamicSetting(ConfigType.LONG),
        "log.cleaner.io.buffer.load.factor": DynamicSetting(ConfigType.DOUBLE),
        "log.cleaner.io.courtesy.bytes.per.second": DynamicSetting(ConfigType.DOUBLE),
        "log.cleaner.io.max.bytes.per.second": DynamicSetting(ConfigType.DOUBLE),
        "log.cleaner.threads": DynamicSetting(ConfigType.INT, at_least(1)),
        "max.connection.creation.rate": DynamicSetting(ConfigType.INT, at_least(1)),
        "max.connections": DynamicSetting(ConfigType.INT, at_least(0)),
        "max.connections.per.ip": DynamicSetting(ConfigType.INT, at_least(0)),
        "max.connections.per.ip.overrides": DynamicSetting(ConfigType.LIST),
        "producer.id.expiration.ms": DynamicSetting(ConfigType.INT, at_least(1)),
        "transaction.partition.verification.enable": DynamicSetting(ConfigType.BOOLEAN),
    }
)
"""Who acts on one of them reads it from `Broker.config` each time, or listens for changes."""


class Inert(NamedTuple):
    """A setting that Kafka can change, which is accepted and has nothing to act on here."""

    setting: DynamicSetting
    doc: str


_RATE: Final = DynamicSetting(ConfigType.LONG, at_least(0))

_THROTTLES: Final[Mapping[str, Inert]] = MappingProxyType(
    {
        name: Inert(
            _RATE,
            f"Limit on {what}, of which there is none: bookies keep the copies. Unit: bytes/s.",
        )
        for name, what in (
            ("leader.replication.throttled.rate", "what leaders send to followers"),
            ("follower.replication.throttled.rate", "what followers fetch from leaders"),
            ("replica.alter.log.dirs.io.max.bytes.per.second", "moves between log directories"),
        )
    }
)
"""What kafka-reassign-partitions sets and takes away again; accepted, because it can only limit."""

_LOGINS: Final[Mapping[str, Inert]] = MappingProxyType(
    {
        name: Inert(DynamicSetting(kind), "Of no effect: the broker logs in nowhere.")
        for name, kind in (
            ("sasl.kerberos.kinit.cmd", ConfigType.STRING),
            ("sasl.kerberos.min.time.before.relogin", ConfigType.LONG),
            ("sasl.kerberos.principal.to.local.rules", ConfigType.LIST),
            ("sasl.kerberos.service.name", ConfigType.STRING),
            ("sasl.kerberos.ticket.renew.jitter", ConfigType.DOUBLE),
            ("sasl.kerberos.ticket.renew.window.factor", ConfigType.DOUBLE),
            ("sasl.login.refresh.buffer.seconds", ConfigType.SHORT),
            ("sasl.login.refresh.min.period.seconds", ConfigType.SHORT),
            ("sasl.login.refresh.window.factor", ConfigType.DOUBLE),
            ("sasl.login.refresh.window.jitter", ConfigType.DOUBLE),
        )
    }
)
"""How Kafka's brokers log in; given to one broker only. Secrets are not among them."""

INERT: Final[Mapping[str, Inert]] = MappingProxyType({**_THROTTLES, **_LOGINS})

_AT_START: Final = frozenset(
    {"log.retention.minutes", "log.retention.hours", "log.roll.hours", "log.roll.jitter.hours"}
)
"""Defaults of topics that Kafka cannot change either."""

_TOPIC_DEFAULTS: Final[Mapping[str, TopicConfig]] = MappingProxyType(
    {
        synonym.name: config
        for config in TOPIC_CONFIGS.values()
        for synonym in config.synonyms
        if synonym.name not in _AT_START and not synonym.name.startswith("tailrace.")
    }
)


def is_dynamic(name: str) -> bool:
    """Tell whether a broker config can change while brokers run."""
    return name in _TOPIC_DEFAULTS or name in INERT or acts_on_broker(name)


def acts_on_broker(name: str) -> bool:
    """Tell whether a config is of the broker's own settings tree, and can change."""
    return name in OWN or is_dynamic_listener_setting(name)


def altered_broker(
    overrides: Mapping[str, str], changes: Changes, defaults: TopicDefaults
) -> dict[str, str]:
    """Return what was given to a broker, or to all, after the changes, in canonical text.

    `defaults`: those in force; a list is changed from what it is there. Errors: KafkaError.
    """
    try:
        result = altered(overrides, changes, lambda name: _items(name, overrides, defaults))
    except InvalidConfig as error:
        raise KafkaError(ErrorCode.INVALID_CONFIG, str(error)) from error
    fixed = sorted(name for name in result if not is_dynamic(name))
    if fixed:
        message = f"Cannot update these configs dynamically: [{', '.join(fixed)}]"
        raise KafkaError(ErrorCode.INVALID_REQUEST, message)
    try:
        return {name: _canonical(name, text or "") for name, text in sorted(result.items())}
    except InvalidConfig as error:
        raise KafkaError(ErrorCode.INVALID_REQUEST, str(error)) from error


def check_for_all(configs: Iterable[str]) -> None:
    """Refuse what only one broker can be given. Errors: KafkaError."""
    names = sorted(name for name in configs if name in _LOGINS or is_dynamic_listener_setting(name))
    if names:
        message = f"Cannot update these configs at default cluster level: [{', '.join(names)}]"
        raise KafkaError(ErrorCode.INVALID_REQUEST, message)


def check_defaults(defaults: TopicDefaults) -> None:
    """Refuse defaults that contradict each other. Errors: KafkaError."""
    try:
        check_overrides({}, defaults)
    except InvalidConfig as error:
        raise KafkaError(ErrorCode.INVALID_REQUEST, str(error)) from error


def _canonical(name: str, text: str) -> str:
    config = _TOPIC_DEFAULTS.get(name)
    if is_dynamic_listener_setting(name):
        return text  # the settings tree that is made with it checks it
    if config is None:
        setting = OWN.get(name) or INERT[name].setting
        return text_of(setting.parse(name, text))
    try:
        return text_of(config.parse(text))
    except InvalidConfig as error:
        raise InvalidConfig(str(error).replace(config.name, name, 1)) from error


def _items(
    name: str, overrides: Mapping[str, str], defaults: TopicDefaults
) -> tuple[str, ...] | None:
    found: tuple[str, ...]
    config = _TOPIC_DEFAULTS.get(name)
    if config is None or config.kind is not ConfigType.LIST:
        return None
    found = config.parse(overrides[name]) if name in overrides else defaults.typed(config, {})
    return found
