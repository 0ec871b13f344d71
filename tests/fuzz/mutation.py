"""Inputs made of others, by seed: as libFuzzer makes them, without its eyes."""

from collections.abc import Iterator, Sequence
from random import Random
from typing import Final

_NUMBERS: Final = [
    number.to_bytes(width, "big", signed=True)
    for width in (1, 2, 4, 8)
    for number in (-1, 0, 1, -2, -(1 << 8 * width - 1), (1 << 8 * width - 1) - 1)
]
_EDGES: Final = (*_NUMBERS, b"\x80", b"\xff" * 4 + b"\x0f", b"\xff" * 9 + b"\x01")


def mutants(
    inputs: Sequence[bytes], count: int, seed: int, bytes_max: int, words: Sequence[bytes] = ()
) -> Iterator[bytes]:
    """Yield `count` damaged copies of inputs; the same for the same arguments."""
    random = Random(seed)
    for _ in range(count):
        data = bytearray(random.choice(inputs))
        for _ in range(random.choice((1, 1, 1, 2, 3, 5))):
            _change(data, random, inputs, words)
        yield bytes(data[:bytes_max])


def _change(  # noqa: C901  # one branch for each kind of damage
    data: bytearray, random: Random, inputs: Sequence[bytes], words: Sequence[bytes]
) -> None:
    at = random.randrange(len(data) + 1)
    kind = random.randrange(8 if words else 7)
    if kind == 0 and at < len(data):
        data[at] ^= 1 << random.randrange(8)
    elif kind == 1 and at < len(data):
        data[at] = random.randrange(256)
    elif kind == 2:
        edge = random.choice(_EDGES)
        data[at : at + len(edge)] = edge
    elif kind == 3:
        del data[at : at + random.randrange(1, 9)]
    elif kind == 4:
        data[at:at] = random.randbytes(random.randrange(1, 9))
    elif kind == 5:
        data[at:at] = data[at : at + random.randrange(1, 33)] * random.choice((1, 1, 2, 8))
    elif kind == 6:
        other = random.choice(inputs)
        data[at:] = other[random.randrange(len(other) + 1) :]
    elif words:
        word = random.choice(words)
        data[at : at + random.choice((0, len(word)))] = word
