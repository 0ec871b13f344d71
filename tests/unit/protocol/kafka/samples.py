"""Values of any message in any version: by seed for Java and goldens, by Hypothesis for properties.

A value has only what its version has; all else keeps its default, so it survives unchanged.
"""

import dataclasses
import functools
from collections.abc import Callable
from random import Random
from typing import Any, TypeAlias

from hypothesis import strategies as st

from tailrace.protocol.kafka import primitives
from tailrace.protocol.kafka.primitives import Kind
from tailrace.protocol.kafka.wire import Array, Wire

TEXTS = ("", "a", "topic-1", "größer", "日本", "x" * 130)
BYTES = (b"", b"\0", b"some bytes", bytes(range(200)))
BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}


def _wires(message: type[Any]) -> list[tuple[str, Wire]]:
    """Return the declared fields of a message, in order."""
    return [(field.name, field.metadata["wire"]) for field in dataclasses.fields(message)]


def sample(message: type[Any], version: int, random: Random, *, plain: bool = False) -> Any:
    """Return a value with something in every field (`plain`: nothing tagged, no null)."""
    values = {}
    for name, spec in _wires(message):
        if not spec.present(version) or (plain and spec.tag is not None):
            continue
        if spec.nullable(version) and not plain and random.random() < 0.25:
            values[name] = None
        else:
            values[name] = _sample_of(spec.kind, version, random, plain=plain)
    return message(**values)


def _sample_of(kind: Any, version: int, random: Random, *, plain: bool) -> Any:
    if isinstance(kind, Array):
        count = random.choice((0, 1, 1, 2, 3))
        return tuple(_sample_of(kind.element, version, random, plain=plain) for _ in range(count))
    if isinstance(kind, Kind):
        return _PRIMITIVES[kind.name](random)
    return sample(kind, version, random, plain=plain)


def _integer(bits: int) -> Callable[[Random], int]:
    edge = 2 ** (bits - 1)
    return lambda random: random.choice((random.randrange(-edge, edge), edge - 1, -edge, 7))


_PRIMITIVES: dict[str, Callable[[Random], Any]] = {
    **{name: _integer(bits) for name, bits in BITS.items()},
    "bool": lambda random: random.random() < 0.5,
    "string": lambda random: random.choice(TEXTS),
    "bytes": lambda random: random.choice(BYTES),
    "records": lambda random: random.choice(BYTES),
    "float64": lambda random: random.choice((0.0, -1.5, 1e300)),
    "uuid": lambda random: random.randbytes(16),
}

_STRATEGIES: dict[str, st.SearchStrategy[Any]] = {
    **{n: st.integers(-(2 ** (b - 1)), 2 ** (b - 1) - 1) for n, b in BITS.items()},
    "bool": st.booleans(),
    "string": st.text(st.characters(codec="utf-8"), max_size=12),
    "bytes": st.binary(max_size=12),
    "records": st.binary(max_size=40),
    "float64": st.floats(allow_nan=False),
    "uuid": st.sampled_from((primitives.NO_UUID, bytes(range(16)))),
}


Leaf: TypeAlias = Callable[[str, Kind], st.SearchStrategy[Any]]
"""What a field of this name and kind, or the elements of its array, may be."""


def _any_leaf(_name: str, kind: Kind) -> st.SearchStrategy[Any]:
    return _STRATEGIES[kind.name]


@functools.cache  # Hypothesis takes long to look at a strategy for the first time
def values(message: type[Any], version: int, leaf: Leaf = _any_leaf) -> st.SearchStrategy[Any]:
    """Return values of one version; fields that travel as tags often keep their default."""
    fields = {}
    for name, spec in _wires(message):
        if not spec.present(version):
            continue
        strategy = _strategy_of(name, spec.kind, version, leaf)
        if spec.nullable(version):
            strategy = st.none() | strategy
        if spec.tag is not None:
            strategy = st.just(getattr(message(), name)) | strategy
        fields[name] = strategy
    return st.builds(message, **fields)


def _strategy_of(name: str, kind: Any, version: int, leaf: Leaf) -> st.SearchStrategy[Any]:
    if isinstance(kind, Array):
        return st.lists(_strategy_of(name, kind.element, version, leaf), max_size=3).map(tuple)
    if isinstance(kind, Kind):
        return leaf(name, kind)
    return values(kind, version, leaf)


@st.composite
def damaged(draw: st.DrawFn, whole: st.SearchStrategy[bytes]) -> bytes:
    """Return bytes that are cut, have one byte changed, or have some put in."""
    data = draw(whole)
    at = draw(st.integers(0, len(data)))
    kind = draw(st.sampled_from(("cut", "change", "insert")))
    if kind == "cut":
        return data[:at]
    if kind == "insert":
        return data[:at] + draw(st.binary(min_size=1, max_size=5)) + data[at:]
    return data[:at] + draw(st.binary(min_size=1, max_size=1)) + data[at + 1 :]
