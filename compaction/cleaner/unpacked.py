"""What comes out of packed payloads, one behind the other in one buffer. Pure."""

from typing import Final

import numpy as np

from protocol.compression import DECOMPRESSED_BYTES_MAX, decompress_into
from protocol.errors import BadLength
from protocol.ids import Buffer

_GUESS: Final = 4
"""Times what is packed; what stays unused of it costs no memory."""
_ROOM_BYTES: Final = 64 * 1024
"""Least room to unpack into: what clients pack into a batch as a rule."""


class Unpacked:
    """Grows as payloads are added."""

    def __init__(self, packed_bytes: int) -> None:
        """`packed_bytes`: of all that is going to be added, about."""
        self._room = _new_room(_GUESS * packed_bytes + _ROOM_BYTES)
        self.size_bytes = 0
        """Of what came out so far."""

    @property
    def data(self) -> memoryview:
        """All that came out; nothing may be added any more."""
        return self._room[: self.size_bytes].toreadonly()

    def add(self, codec: int, payload: Buffer) -> None:
        """Unpack one more. Errors: DecodeError, as `decompress`; nothing is added then."""
        while True:
            left = len(self._room) - self.size_bytes
            if left >= _ROOM_BYTES:
                try:
                    self.size_bytes += decompress_into(
                        codec, payload, self._room[self.size_bytes :]
                    )
                except BadLength:
                    if left >= DECOMPRESSED_BYTES_MAX:
                        raise
                else:
                    return
            self._grow()

    def _grow(self) -> None:
        room = _new_room(2 * len(self._room))
        room[: self.size_bytes] = self._room[: self.size_bytes]
        self._room = room


def _new_room(size_bytes: int) -> memoryview:
    return np.empty(size_bytes, np.uint8).data  # a bytearray would be filled with zeros
