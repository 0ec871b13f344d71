"""What must hold of every input: the decoder ends with a value or an error that it promises, takes
memory and steps in proportion to the input, gives no number beyond 64 bits, and what it returns
survives its own encoder.
"""

import dataclasses
import tracemalloc
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from tests.fuzz.coverage import Counted, TooManySteps
from tests.fuzz.target import Target

STEPS_BASE: Final = 20_000


class Fault(Exception):
    """An input that shows a fault."""

    def __init__(self, target: Target, data: bytes, what: str) -> None:
        super().__init__(f"{target.name}: {what}; input {data.hex()}")


def judge(target: Target, data: bytes) -> type[Exception] | None:
    """Run one input; return the class of the error that the decoder gave. Errors: Fault.

    tracemalloc runs while the decoder does: peaks are those of Python's own memory.
    """
    value, error, peak = _measured(target, data)
    limit = target.memory_base + target.memory_per_byte * len(data)
    if peak > limit:  # the first time what is built once counts as well
        value, error, peak = _measured(target, data)
    if peak > limit:
        raise Fault(target, data, f"{peak} bytes taken for {len(data)}, the limit is {limit}")
    if error is None:
        if not _fits(plain(value)):
            raise Fault(target, data, f"a number beyond 64 bits in {value!r}")
        _check_round_trip(target, data, value)
    return type(error) if error is not None else None


def judge_steps(target: Target, data: bytes, counted: Counted) -> type[Exception] | None:
    """Do the same, and count the lines that run. Errors: Fault."""
    limit = STEPS_BASE + target.steps_per_byte * len(data)
    try:
        with counted.limited(limit):
            found = _outcome(target, data)[1]
    except TooManySteps:
        raise Fault(target, data, f"more than {limit} lines run for {len(data)} bytes") from None
    judge(target, data)
    return type(found) if found is not None else None


def _measured(target: Target, data: bytes) -> tuple[Any, Exception | None, int]:
    if not tracemalloc.is_tracing():
        tracemalloc.start(1)
    tracemalloc.reset_peak()
    before = tracemalloc.get_traced_memory()[0]
    value, error = _outcome(target, data)
    return value, error, tracemalloc.get_traced_memory()[1] - before


def _outcome(target: Target, data: bytes) -> tuple[Any, Exception | None]:
    try:
        return target.decode(data), None
    except target.errors as error:
        return None, error.with_traceback(None)
    except TooManySteps:
        raise
    except BaseException as error:  # a panic of a library in Rust is none of Exception's
        raise Fault(target, data, f"{type(error).__name__}: {error}") from error


def _check_round_trip(target: Target, data: bytes, value: Any) -> None:
    if target.encode is None:
        return
    try:
        again = target.encode(value)
        if again is None:
            return
        found = target.decode(again)
    except Exception as error:
        what = f"{value!r} does not come back: {type(error).__name__}: {error}"
        raise Fault(target, data, what) from error
    if plain(found) != plain(value):
        raise Fault(target, data, f"{value!r} comes back as {found!r}")


def _fits(value: Any) -> bool:
    """Say whether all numbers in a plain value have 64 bits: struct and numpy take no others."""
    if isinstance(value, int):
        return -(1 << 63) <= value < 1 << 64
    if isinstance(value, dict):
        return all(map(_fits, value.values()))
    return not isinstance(value, tuple) or all(map(_fits, value))


def plain(value: Any) -> Any:  # noqa: PLR0911  # one for each kind of value
    """Return a value in a form that compares by what it says: buffers by bytes, NaN as itself."""
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, msgspec.Struct):
        fields = value.__struct_fields__
        return type(value).__name__, *(plain(getattr(value, name)) for name in fields)
    if dataclasses.is_dataclass(value):
        names = (field.name for field in dataclasses.fields(value) if field.compare)
        return type(value).__name__, *(plain(getattr(value, name)) for name in names)
    if isinstance(value, Mapping):
        return {plain(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return tuple(plain(each) for each in value)
    return value
