"""Settings: one frozen dataclass per component, filled once: defaults < TOML < environment < --set.

A process has one tree of them. Every leaf is declared with `setting()` and has the name that users
write; a field that is itself such a dataclass is a branch and adds nothing to the names, so the
names are one flat list for the whole process, as in Kafka. `load()` refuses what it does not know
and what does not convert, and remembers where each value came from, so that the effective
configuration can be printed with its sources.
"""

import dataclasses
import re
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Generic, NamedTuple, TypeAlias, TypeVar

import msgspec
from typing_extensions import override

ENVIRONMENT_PREFIX = "TAILRACE_"
HIDDEN = "***"
"""Stands for a secret wherever settings are shown."""

T = TypeVar("T")

AtLeastOne = Annotated[int, msgspec.Meta(ge=1)]
NotNegative = Annotated[int, msgspec.Meta(ge=0)]
PortNumber = Annotated[int, msgspec.Meta(ge=0, le=65535)]


class Secret:
    """A setting's value that is shown nowhere: a password, a private key. Immutable.

    Text forms, and so log lines, errors, `--show-config` and DescribeConfigs, have `***`.
    """

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """Return the value, for what uses it."""
        return self._text

    def __bool__(self) -> bool:
        """Whether it has a value that is not empty."""
        return bool(self._text)

    @override
    def __eq__(self, other: object) -> bool:
        """Whether both have one value."""
        return isinstance(other, Secret) and self._text == other._text

    @override
    def __hash__(self) -> int:
        """Return a number that says nothing of the value beyond this process."""
        return hash((Secret, self._text))

    @override
    def __repr__(self) -> str:
        """Return `***`; nothing for an empty one."""
        return HIDDEN if self._text else ""


def setting(key: str, default: Any, doc: str) -> Any:
    """Declare a setting of a config dataclass.

    `key` is the name that users write: Kafka's or BookKeeper's own where they have one. `doc` says
    meaning, unit and what goes wrong; `--show-config` prints it.
    """
    return dataclasses.field(default=default, metadata={"key": key, "doc": doc})


LeafOf: TypeAlias = "Callable[[str], Setting | None]"


def settings_below(prefix: str, leaf_of: LeafOf) -> Any:
    """Declare settings whose names users complete, as `listener.name.<name>.<setting>`.

    `leaf_of`: says what the rest of a name is, None for what is no setting. Shape of the value:
    (rest, typed value) of each that was given. The environment cannot give them: in a variable's
    name a dot and an underscore look alike.
    """
    return dataclasses.field(default=(), metadata={"prefix": prefix, "leaf_of": leaf_of})


class ConfigError(Exception):
    """A configuration that cannot be used; the message names key, value, expectation and place."""

    remedy = ""
    """What would mend it, for people; empty where the message says it."""


class Assignment(NamedTuple):
    """One value that somebody gave, and where."""

    key: str
    value: Any
    origin: str


class Setting(NamedTuple):
    """One leaf of a config tree."""

    key: str
    kind: Any
    default: Any
    doc: str
    owner: type
    field: str


class Effective(NamedTuple):
    """One setting as it is in force."""

    key: str
    value: Any
    origin: str
    """`default`, or where the value was given."""
    doc: str


@dataclass(frozen=True, slots=True)
class Loaded(Generic[T]):
    """A config tree and where its values came from."""

    config: T
    origins: Mapping[str, str]
    """Place of every value that was given; what is missing here is a default."""

    def effective(self) -> list[Effective]:
        """Return every setting with its value and source, sorted by name."""
        values = values_of(self.config)
        return [
            Effective(s.key, values[s.key], self.origins.get(s.key, "default"), s.doc)
            for s in sorted(settings_in(self.config))
        ]


def settings_of(config: type) -> list[Setting]:
    """Return the leaves of a config tree, in order of declaration.

    Errors: AssertionError when two leaves have one name or one environment name (our bug).
    """
    leaves = list(_leaves(config))
    for form in (lambda s: s.key, lambda s: environment_name(s.key)):
        names = [form(leaf) for leaf in leaves]
        twice = sorted({name for name in names if names.count(name) > 1})
        assert not twice, f"declared twice in {config.__name__}: {twice}"
    return leaves


def settings_in(config: Any) -> list[Setting]:
    """Return the leaves of a tree, and those that were given below a prefix."""
    static = settings_of(type(config))
    named = {leaf.key for leaf in static}
    others = [setting_below(type(config), key) for key in values_of(config) if key not in named]
    return static + [leaf for leaf in others if leaf is not None]


def setting_below(config: type, key: str) -> Setting | None:
    """Return the leaf of a name that users complete; None: it is not below a prefix."""
    return _BelowPrefixes(config).leaf(key)


def values_of(config: Any) -> dict[str, Any]:
    """Return the values of a config tree by the names that users write."""
    return dict(_values(config))


def environment_name(key: str) -> str:
    """Return the environment variable of a setting: upper case, dots and dashes as underscores."""
    return ENVIRONMENT_PREFIX + re.sub(r"[.\-]", "_", key).upper()


def load(config: type[T], assignments: Sequence[Assignment]) -> Loaded[T]:
    """Build the tree; of several values for one key the last wins.

    Errors: ConfigError for unknown keys (with the nearest known one), for values of the wrong type
    and for combinations that a dataclass refuses (ValueError from its `__post_init__`).
    """
    leaves = {leaf.key: leaf for leaf in settings_of(config)}
    below = _BelowPrefixes(config)
    values: dict[tuple[type, str], Any] = {}
    origins: dict[str, str] = {}
    for given in assignments:
        leaf = leaves.get(given.key) or below.leaf(given.key)
        if leaf is None:
            hint = nearest(given.key, leaves)
            raise ConfigError(f"unknown setting {given.key} ({given.origin}){hint}")
        origin = given.origin
        if leaf.kind is Secret:
            origin = origin.partition("=")[0]  # of an argument: what follows is the secret
        value = _convert(leaf, given._replace(origin=origin))
        if given.key in leaves:
            values[leaf.owner, leaf.field] = value
        else:
            below.put(values, given.key, value)
        origins[given.key] = origin
    return Loaded(_build(config, values, origins), origins)


def shown(value: Any) -> str:
    """Return a value as a user would write it; an unset one is empty."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple | list | frozenset):
        return ",".join(shown(item) for item in value)
    return str(getattr(value, "value", value))


def nearest(name: str, known: Iterable[str]) -> str:
    """Return "; did you mean ...?" with the known name that is most like `name`; "" without one."""
    import difflib  # only a typo pays for it

    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    return f"; did you mean {near[0]}?" if near else ""


def _leaves(config: type) -> Iterator[Setting]:
    hints = typing.get_type_hints(config, include_extras=True)
    for field in dataclasses.fields(config):
        if "key" in field.metadata:
            meta = field.metadata
            yield Setting(
                meta["key"], hints[field.name], field.default, meta["doc"], config, field.name
            )
        elif dataclasses.is_dataclass(hints[field.name]):
            yield from _leaves(hints[field.name])


class _Prefix(NamedTuple):
    text: str
    leaf_of: LeafOf
    owner: type
    field: str


class _BelowPrefixes:
    """What the fields of a tree that `settings_below` declared can take."""

    def __init__(self, config: type) -> None:
        self._prefixes = list(_prefixes(config))

    def leaf(self, key: str) -> Setting | None:
        """Return what a name below a prefix means."""
        for prefix in self._prefixes:
            if key.startswith(prefix.text):
                found = prefix.leaf_of(key.removeprefix(prefix.text))
                return found and found._replace(key=key, default=None)
        return None

    def put(self, values: dict[tuple[type, str], Any], key: str, value: Any) -> None:
        """Note a value of a name that has a leaf; of several the last wins."""
        prefix = next(each for each in self._prefixes if key.startswith(each.text))
        place, rest = (prefix.owner, prefix.field), key.removeprefix(prefix.text)
        values[place] = tuple((dict(values.get(place, ())) | {rest: value}).items())


def _prefixes(config: type) -> Iterator[_Prefix]:
    hints = typing.get_type_hints(config, include_extras=True)
    for field in dataclasses.fields(config):
        if "prefix" in field.metadata:
            meta = field.metadata
            yield _Prefix(meta["prefix"], meta["leaf_of"], config, field.name)
        elif "key" not in field.metadata and dataclasses.is_dataclass(hints[field.name]):
            yield from _prefixes(hints[field.name])


def _values(config: Any) -> Iterator[tuple[str, Any]]:
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        if "key" in field.metadata:
            yield field.metadata["key"], value
        elif "prefix" in field.metadata:
            for rest, given in value:
                yield field.metadata["prefix"] + rest, given
        elif dataclasses.is_dataclass(value):
            yield from _values(value)


def _build(
    config: type[T], values: Mapping[tuple[type, str], Any], origins: Mapping[str, str]
) -> T:
    hints = typing.get_type_hints(config, include_extras=True)
    arguments: dict[str, Any] = {}
    for field in dataclasses.fields(config):  # type: ignore[arg-type]  # a dataclass by contract
        if (config, field.name) in values:
            arguments[field.name] = values[config, field.name]
        elif "key" not in field.metadata and dataclasses.is_dataclass(hints[field.name]):
            arguments[field.name] = _build(hints[field.name], values, origins)
    try:
        return config(**arguments)
    except ValueError as error:
        keys = [f.metadata.get("key", "") for f in dataclasses.fields(config)]  # type: ignore[arg-type]
        places = ", ".join(origins[key] for key in keys if key in origins) or "defaults"
        raise ConfigError(f"{error} ({places})") from error


def _convert(leaf: Setting, given: Assignment) -> Any:
    value = given.value
    if isinstance(value, str) and _is_list(leaf.kind):
        value = [part.strip() for part in value.split(",") if part.strip()]
    try:
        return msgspec.convert(value, leaf.kind, strict=False, dec_hook=_decode)
    except (msgspec.ValidationError, ValueError) as error:
        reason = str(error).partition(" - at ")[0]
        text = HIDDEN if leaf.kind is Secret else repr(given.value)
        place = f"{given.key} = {text} ({given.origin})"
        raise ConfigError(f"{place}: expected {_type_name(leaf.kind)}: {reason}") from error


def _decode(kind: type, value: Any) -> Any:
    if isinstance(value, kind):
        return value  # of another tree of settings
    if kind is Path and isinstance(value, str):
        return Path(value).expanduser()
    if kind is Secret and isinstance(value, str):
        return Secret(value)
    raise ValueError(f"not a {getattr(kind, '__name__', kind)}")


def _is_list(kind: Any) -> bool:
    origin = typing.get_origin(kind)
    if origin is typing.Annotated:
        return _is_list(typing.get_args(kind)[0])
    if origin in (typing.Union, UnionType):
        return any(_is_list(option) for option in typing.get_args(kind))
    return origin in (tuple, list, frozenset)


def _type_name(kind: Any) -> str:
    if typing.get_origin(kind) is typing.Annotated:
        return _type_name(typing.get_args(kind)[0])
    if typing.get_origin(kind) in (typing.Union, UnionType):
        options = [option for option in typing.get_args(kind) if option is not type(None)]
        return " or ".join(_type_name(option) for option in options)
    if typing.get_origin(kind) is typing.Literal:
        return "one of " + ", ".join(map(str, typing.get_args(kind)))
    if _is_list(kind):
        return "a comma-separated list"
    return _TYPE_NAMES.get(kind, getattr(kind, "__name__", str(kind)))


_TYPE_NAMES: Mapping[Any, str] = {
    int: "an integer",
    float: "a number",
    bool: "true or false",
    str: "a string",
    Secret: "a string",
    Path: "a path",
}
