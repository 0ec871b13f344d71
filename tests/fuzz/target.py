"""One decoder under test."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A decoder, and what it promises."""

    name: str
    decode: Callable[[bytes], Any]
    """Input -> value. An AssertionError says that two readers of the same bytes disagree."""
    errors: tuple[type[Exception], ...]
    """What it may raise; nothing else, and no parent of these by chance."""
    seeds: Callable[[], Iterable[bytes]]
    encode: Callable[[Any], bytes | None] | None = None
    """Value -> an input that decodes to the same value; None: this value has no such form."""
    memory_per_byte: int = 100
    """Bytes that may be taken while it runs, for each byte of the input and above MEMORY_BASE."""
    memory_base: int = 256 * 1024
    steps_per_byte: int = 60
    """Lines of Python that may run for each byte of the input, above STEPS_BASE."""
    bytes_max: int = 2048
    """Longer inputs find nothing more."""
    dictionary: tuple[bytes, ...] = ()
    """Words of the format."""

    def __str__(self) -> str:
        return self.name
