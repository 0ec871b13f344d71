"""Size-prefixed frames out of received bytes: int32 size (without itself), then that many bytes.

Pure: bytes in, whole frames out, nothing else. `core.runtime.net` has the same grammar with sockets
and receive memory around it; this is what clients, tools and tests cut a stream with.
"""

from struct import Struct
from typing import Final

from protocol.errors import BadLength, FrameTooLarge
from protocol.ids import Buffer

_SIZE: Final = Struct(">i")


class FrameReader:
    """Cuts what one peer sends into frames of at most `limit` bytes.

    Shape: a frame is memory of its own, writable, so that a batch in it can be stamped in place.
    Errors: BadLength (negative size), FrameTooLarge; the stream has lost its place: close it.
    Cost: memory follows the bytes that came, never the size announced; two copies of each byte.
    """

    __slots__ = ("_limit", "_pending")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._pending = bytearray()

    @property
    def pending_bytes(self) -> int:
        """Bytes of a frame that is not complete yet; 0: the peer is between two frames."""
        return len(self._pending)

    def feed(self, data: Buffer) -> list[memoryview]:
        """Take received bytes; return the frames that they complete, in order."""
        pending = self._pending
        pending += data
        frames: list[memoryview] = []
        start = 0
        while len(pending) - start >= _SIZE.size:
            end = start + _SIZE.size + self._size_at(start)
            if end > len(pending):
                break
            frames.append(memoryview(pending[start + _SIZE.size : end]))
            start = end
        del pending[:start]
        return frames

    def _size_at(self, start: int) -> int:
        size: int = _SIZE.unpack_from(self._pending, start)[0]
        if size < 0:
            raise BadLength(f"frame of {size} bytes")
        if size > self._limit:
            raise FrameTooLarge(f"frame of {size} bytes, the limit is {self._limit}")
        return size
