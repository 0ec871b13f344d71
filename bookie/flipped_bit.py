"""Which bit of a group's record heads has flipped, told by the group's checksum. Pure.

CRC32C is linear: a flipped bit changes the checksum by what that bit alone amounts to, which is
another amount for each bit of 2^31. So a group with one wrong bit says which one it is. Heads are
what an index is made of; with a wrong one the bookie would know an entry that was never added, and
say of another one, which it acknowledged, that it is not there.

    difference of the checksums -> taken back, byte by byte, from the group's end to each head
                                -> what a single bit amounts to in that byte, or not

Bits of bodies are left as they are: the digests of their readers judge them.
"""

from collections.abc import Mapping
from functools import cache
from typing import Final, NamedTuple

_POLYNOMIAL: Final = 0x82F63B78
"""Castagnoli's, bits reversed."""
_BITS: Final = range(8)


class FlippedBit(NamedTuple):
    """Where it is: the offset of its byte, and its value there."""

    offset: int
    value: int


def find_flipped_bit(difference: int, size: int, heads: Mapping[int, int]) -> FlippedBit | None:
    """Return the bit of one of the heads that alone explains a difference of two CRC32Cs.

    `difference`: of the stored and the computed checksum, by XOR. `size`: of the bytes that both
    end with. `heads`: sizes of heads by their offsets in these bytes. None: it is none of their
    bits, or more than one bit is wrong. Cost: some 50 us for each head.
    """
    bits = _single_bits()
    register, end = difference, size
    for head in sorted(heads, reverse=True):
        for offset in range(head + heads[head] - 1, head - 1, -1):
            zeros = end - offset - 1
            register = _byte_back(register) if zeros == 1 else _back(register, zeros)
            end = offset + 1
            value = bits.get(register)
            if value is not None:
                return FlippedBit(offset, value)
    return None


def _back(register: int, count: int) -> int:
    """Take a register back by so many bytes of zeros."""
    power = 0
    while count:
        if count & 1:
            register = _applied(_steps_back(power), register)
        count >>= 1
        power += 1
    return register


def _applied(matrix: tuple[int, ...], register: int) -> int:
    """Return the product over GF(2). Shape: what becomes of each bit, the lowest first."""
    product = 0
    for column in matrix:
        if register & 1:
            product ^= column
        register >>= 1
    return product


@cache
def _steps_back(power: int) -> tuple[int, ...]:
    """Return how 2^power bytes of zeros are taken back."""
    if power:
        half = _steps_back(power - 1)
        return tuple(_applied(half, column) for column in half)
    return tuple(_byte_back(1 << bit) for bit in range(32))


def _byte_back(register: int) -> int:
    for _ in _BITS:
        was_odd = register >> 31
        register = ((register ^ (_POLYNOMIAL * was_odd)) << 1 | was_odd) & 0xFFFF_FFFF
    return register


@cache
def _single_bits() -> dict[int, int]:
    """Return what each bit of a byte amounts to right behind that byte."""
    return {_forward(1 << bit): 1 << bit for bit in _BITS}


def _forward(register: int) -> int:
    for _ in _BITS:
        register = (register >> 1) ^ (_POLYNOMIAL * (register & 1))
    return register
