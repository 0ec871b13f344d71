"""Settings of one listener: `listener.name.<name>.<setting>` goes before `<setting>`. Pure.

    listener.name.internal.ssl.client.auth=required

The name is in lower case, as in Kafka. Source: ListenerName.configPrefix,
AbstractConfig.valuesWithPrefixOverride.
"""

from collections.abc import Iterable
from typing import Any, Final, TypeAlias, TypeVar

from tailrace.broker.authentication.config import SaslConfig
from tailrace.core.runtime.config import (
    Assignment,
    Secret,
    Setting,
    load,
    settings_of,
    values_of,
)
from tailrace.core.security.tls_config import TlsConfig

LISTENER_PREFIX: Final = "listener.name."

PerListener: TypeAlias = tuple[tuple[str, Any], ...]
"""`<name>.<setting>` and its typed value."""

_RULES: Final = Setting(
    "ssl.principal.mapping.rules", str, None, "The same, of one listener.", object, ""
)
_DYNAMIC: Final = {leaf.key: leaf for leaf in settings_of(TlsConfig)}
_SASL: Final = {leaf.key: leaf for leaf in settings_of(SaslConfig)}
_JAAS: Final = {
    f"{mechanism}.sasl.jaas.config": Setting(
        f"{mechanism}.sasl.jaas.config",
        Secret,
        None,
        "As whom this broker logs in to others by this listener and mechanism.",
        object,
        "",
    )
    for mechanism in ("plain", "scram-sha-256", "scram-sha-512", "oauthbearer")
}
_LEAVES: Final = {_RULES.key: _RULES, **_DYNAMIC, **_SASL, **_JAAS}

C = TypeVar("C")


def listener_leaf(rest: str) -> Setting | None:
    """Return what `<name>.<setting>` is; None for what one listener cannot have of its own."""
    found = _split(rest)
    return _LEAVES[found[1]] if found is not None and found[0] == found[0].lower() else None


def is_dynamic_listener_setting(name: str) -> bool:
    """Tell whether a broker config is of one listener and can change while the broker runs."""
    if not name.startswith(LISTENER_PREFIX):
        return False
    found = _split(name.removeprefix(LISTENER_PREFIX))
    return found is not None and found[1] in _DYNAMIC and found[0] == found[0].lower()


def _split(rest: str) -> tuple[str, str] | None:
    """Return name and setting; a listener's name may have dots."""
    for at, character in enumerate(rest):
        if at and character == "." and rest[at + 1 :] in _LEAVES:
            return rest[:at], rest[at + 1 :]
    return None


def settings_of_listener(given: PerListener, listener: str) -> dict[str, Any]:
    """Return the settings that a listener has of its own."""
    prefix = f"{listener.lower()}."
    return {name.removeprefix(prefix): value for name, value in given if name.startswith(prefix)}


def jaas_of_listener(given: PerListener, listener: str, mechanism: str) -> Secret | None:
    """Return what a listener has of its own for log-ins by a mechanism; None: nothing."""
    found = settings_of_listener(given, listener).get(f"{mechanism.lower()}.sasl.jaas.config")
    return found if isinstance(found, Secret) else None


def of_listener(common: C, given: PerListener, listener: str) -> C:
    """Return a branch of settings as one listener has it. Errors: ConfigError."""
    own = settings_of_listener(given, listener)
    of_all = values_of(common)
    if not own.keys() & of_all.keys():
        return common
    values = of_all | {key: value for key, value in own.items() if key in of_all}
    origin = f"{LISTENER_PREFIX}{listener.lower()}"
    assignments = [Assignment(key, value, origin) for key, value in values.items()]
    return load(type(common), assignments).config


def check_listener_names(given: PerListener, listeners: Iterable[str]) -> None:
    """Refuse settings of listeners that are not there. Errors: ValueError."""
    known = {name.lower() for name in listeners}
    for rest, _ in given:
        found = _split(rest)
        if found is None or found[0] not in known:
            of_whom = ", ".join(sorted(known))
            raise ValueError(f"{LISTENER_PREFIX}{rest} is not of a listener ({of_whom})")
