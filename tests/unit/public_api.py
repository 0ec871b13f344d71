"""What is public, as text: each name that `docs/api.md` promises, with its signature.

`python -m tests.unit.public_api` writes it to `tests/golden/public_api.txt`, where a change of it
is read before it is made.
"""

import dataclasses
import enum
import importlib
import inspect
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[2]
PAGE: Final = ROOT / "docs" / "api.md"
STORED: Final = ROOT / "tests" / "golden" / "public_api.txt"
OURS: Final = re.compile(r"tailrace\.[a-z_.]+\.([A-Z]\w*)")
"""A type of ours in a signature."""
_QUALIFIED: Final = re.compile(r"(?<![\w.:])(?:[a-z_0-9]+\.)+(?=[A-Z])")
"""Where a type comes from, which may change."""


def modules() -> list[str]:
    """Return the modules that the page lists."""
    return re.findall(r"^\| \[?`(tailrace[a-z_.]*)`", PAGE.read_text(), re.MULTILINE)


def described() -> str:
    """Return all public names with their signatures, one a line."""
    return "".join(f"{_QUALIFIED.sub('', line)}\n" for line in signatures())


def signatures() -> Iterator[str]:
    """Yield the lines with the modules that types come from."""
    for name in modules():
        module = importlib.import_module(name)
        yield f"# {name}"
        for each in sorted(module.__all__):
            yield from _value(f"{name}:{each}", getattr(module, each))


def _value(name: str, value: Any) -> Iterator[str]:
    if inspect.isclass(value):
        yield from _class(name, value)
    elif callable(value) and hasattr(value, "__name__"):
        yield f"{name}{_signature(value)}"
    else:
        yield f"{name}: {type(value).__name__}"


def _class(name: str, value: type) -> Iterator[str]:
    if issubclass(value, enum.Enum):
        yield f"{name}: {', '.join(value.__members__)}"
        return
    bases = [base.__name__ for base in value.__bases__ if base is not object]
    yield f"{name}({', '.join(bases)})"
    if not issubclass(value, BaseException) and not _is_made_by_calls(value):
        yield f"{name}{_signature(value)}"
    fields = {each.name for each in dataclasses.fields(value)} if _is_data(value) else set()
    for member in _members(value, fields):
        found = inspect.getattr_static(value, member)
        if isinstance(found, property):
            yield f"{name}.{member} -> {_returned(found.fget)}"
        elif isinstance(found, classmethod | staticmethod) or inspect.isfunction(found):
            yield f"{name}.{member}{_signature(getattr(value, member))}"


def _is_made_by_calls(value: type) -> bool:
    """Tell whether a constructor takes what is not public: other calls make such objects."""
    return bool(set(OURS.findall(_signature(value))) - public_names())


@cache
def public_names() -> set[str]:
    """Return the public names without their modules."""
    return {each for name in modules() for each in importlib.import_module(name).__all__}


def _members(value: type, fields: set[str]) -> list[str]:
    """Return the names that a class has from classes of ours, its bases included."""
    ours = [each for each in value.__mro__ if each.__module__.startswith("tailrace")]
    names = {member for each in ours for member in vars(each)}
    return sorted(each for each in names - fields if not each.startswith("_"))


def _is_data(value: type) -> bool:
    return dataclasses.is_dataclass(value)


def _returned(function: Any) -> str:
    return inspect.formatannotation(inspect.signature(function).return_annotation)


def _signature(value: Any) -> str:
    try:
        text = str(inspect.signature(value))
    except ValueError:  # a type of C's
        return "(...)"
    return re.sub(r" at 0x[0-9a-f]+", "", text).replace(sys.executable, "PYTHON")


if __name__ == "__main__":
    STORED.write_text(described())
