"""Size-prefixed frames out of received bytes: int32 size (without itself), then that many bytes.

Pure: whoever owns the socket asks `buffer()` where to receive to and says `received(n)` (the shape
of `asyncio.BufferedProtocol`, no copy in between), or hands bytes to `feed()` (one copy).
Invariant: a frame that was handed out is memory that is never written to again by this reader; it
is writable, so a batch inside it can be stamped in place.
"""

from struct import Struct
from typing import Final

from protocol.errors import BadLength, FrameTooLarge
from protocol.ids import Buffer

_SIZE: Final = Struct(">i")
_CHUNK_BYTES_MIN: Final = 4 * 1024
_CHUNK_BYTES_MAX: Final = 256 * 1024
_TRUSTED_BYTES: Final = (
    2 * 1024 * 1024
)  # memory a peer may claim by announcing a size; then it doubles


class FrameReader:
    """Cuts what one peer sends into frames of at most `limit` bytes.

    Errors: BadLength (negative size) and FrameTooLarge; the stream has lost its place, so close it.
    Cost: no copy of a frame that fits the chunk it arrives in; a larger one is copied once per
    doubling above 2 MiB. Between frames an idle reader holds no memory.
    """

    __slots__ = ("_chunk_bytes", "_end", "_limit", "_start", "_view", "_wanted")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._view: memoryview | None = None  # the chunk; frames are slices that keep it alive
        self._start = 0  # first byte of the frame that is not complete yet
        self._end = 0  # behind the last byte received
        self._wanted = 0  # bytes of that frame with its size, once the size is known
        self._chunk_bytes = _CHUNK_BYTES_MIN

    @property
    def pending_bytes(self) -> int:
        """Bytes of a frame that is not complete yet (0: the peer stopped between two frames)."""
        return self._end - self._start

    def buffer(self) -> memoryview:
        """Return where to receive the next bytes: never empty; valid until the next call."""
        view = self._view
        if view is None:
            view = self._view = memoryview(bytearray(self._chunk_bytes))
        elif self._end == len(view) or self._wanted > len(view) - self._start:
            view = self._move()
        return view[self._end :]

    def received(self, count: int) -> list[memoryview]:
        """Count bytes written at the start of `buffer()`; return the frames they complete."""
        self._end += count
        view = self._view
        if view is None or self._end > len(view):
            raise ValueError("more bytes received than buffer() gave room for")
        self._adapt(count)
        return self._cut(view)

    def feed(self, data: Buffer) -> list[memoryview]:
        """Take received bytes (copied once); return the frames they complete."""
        frames: list[memoryview] = []
        rest = memoryview(data)
        while rest:
            room = self.buffer()
            count = min(len(room), len(rest))
            room[:count] = rest[:count]
            frames += self.received(count)
            rest = rest[count:]
        return frames

    def _cut(self, view: memoryview) -> list[memoryview]:
        frames: list[memoryview] = []
        start, end = self._start, self._end
        self._wanted = 0
        while end - start >= 4:
            size: int = _SIZE.unpack_from(view, start)[0]
            if size < 0:
                raise BadLength(f"frame of {size} bytes")
            if size > self._limit:
                raise FrameTooLarge(f"frame of {size} bytes, the limit is {self._limit}")
            if end - start - 4 < size:
                self._wanted = 4 + size
                break
            frames.append(view[start + 4 : start + 4 + size])
            start += 4 + size
        self._start = start
        if start == end:
            self._view, self._start, self._end = None, 0, 0
        return frames

    def _move(self) -> memoryview:
        """Carry an incomplete frame to a chunk with room for more of it."""
        view = self._view
        pending = self.pending_bytes
        trusted = max(self._chunk_bytes, _TRUSTED_BYTES, 2 * pending)
        room = max(self._chunk_bytes, min(self._wanted, trusted), pending + _CHUNK_BYTES_MIN)
        moved = memoryview(bytearray(room))
        if view is not None:
            moved[:pending] = view[self._start : self._end]
        self._view, self._start, self._end = moved, 0, pending
        return moved

    def _adapt(self, count: int) -> None:
        """Let chunks follow the traffic: a full one doubles the next, an empty one halves it."""
        if self._view is not None and self._end == len(self._view):
            self._chunk_bytes = min(2 * self._chunk_bytes, _CHUNK_BYTES_MAX)
        elif count * 4 < self._chunk_bytes > _CHUNK_BYTES_MIN:
            self._chunk_bytes //= 2
