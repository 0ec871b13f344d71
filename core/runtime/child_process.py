"""A process of our own that computes beside this one: Python computes on one core per process.

A call is a function with its arguments, pickled. Its large buffers are copied into memory that both
processes see, in turn into one of `SLOTS` slots: one call's are put there while another is
computed, and the child reads them where they lie. Those of its answer go into another part of the
slot, and the parent copies them: the child never waits for a parent that has not come to it yet.
What fits no slot goes through the socket. Calls are answered one after the other. The kernel copies
into slots and out of them: a copy of Python's own would keep its other threads from running.

The child ends with its parent, however that ends: its socket is then at its end. It hears no Ctrl-C
of its parent's terminal, as it has a process group of its own, and runs at a lower priority, so
that who serves comes first. It stays in its parent's session: Linux weighs sessions against each
other as wholes (sched_autogroup), and in another one its priority would mean nothing.

Frame: u32 length of what is pickled, u32 count of buffers, u32 slot that they lie in, one behind
the other (0: they follow), u32 length of each, then all of it. `Pieces` are one buffer there.
"""

import io
import mmap
import os
import pickle
import socket
import struct
import subprocess
import sys
import threading
import traceback
from array import array
from collections.abc import Callable, Sequence
from itertools import accumulate, chain, cycle, pairwise
from pathlib import Path
from typing import Any, Final

from typing_extensions import override

from tailrace.core.errors import Unavailable
from tailrace.core.runtime.files import SystemFiles
from tailrace.protocol.ids import Buffer, Position

NICE: Final = 5
"""Added to the parent's: about a third of a share where both want the same core."""
LARGE_BYTES: Final = 2048
"""Buffers from this size on are not copied into what is pickled."""
SLOTS: Final = 2
"""Calls that may be on their way."""
SLOT_BYTES: Final = 5 * 1024 * 1024
"""Room for the buffers of a call, and as much for those of its answer."""
_FILES: Final = SystemFiles()
_BUFFERS_AT_ONCE: Final = 512  # a system call takes 1024
_HEAD: Final = struct.Struct(">III")
_SIZES: Final = "I"
_START: Final = (
    "import sys; sys.path.append(sys.argv[1]); "
    "from tailrace.core.runtime.child_process import serve; serve(int(sys.argv[2]))"
)


class ChildFailed(Exception):
    """A call raised in the child what no caller expects: its traceback, as text."""


class Pieces(tuple[Buffer, ...]):
    """Contiguous buffers of bytes, of any size, that go together; they come as `Joined`.

    Alone each would be pickled by a call into Python, and one below `LARGE_BYTES` copied.
    """

    __slots__ = ()


class Joined(list[memoryview]):
    """Views of one buffer, one behind the other, all of it."""

    def __init__(self, whole: memoryview, sizes: Sequence[int]) -> None:
        """Cut a buffer into views of these sizes, which fill it."""
        super().__init__(_cut(whole, sizes))
        self.whole: Final = whole


class ChildProcess:
    """One such process, as its parent has it. Calls block.

    One thread may `send` while another one has what was sent before: as many `receive`s, in the
    same order. Invariant: after Unavailable the two may have lost step; only `kill` and `wait` are
    left.
    """

    def __init__(self, state: Callable[..., object], *arguments: object) -> None:
        """Start it; `state(*arguments)` is made there, the first argument of each call.

        Functions and values are known to both by their modules' names. Cost: 0.1 s, and what the
        modules take that it loads.
        """
        self._socket, theirs = socket.socketpair()
        beside = str(Path(__file__).parents[3])  # the folder that `tailrace` is in
        memory = open(os.memfd_create("child"), "r+b", buffering=0)  # noqa: SIM115 - until `wait`
        try:
            os.ftruncate(memory.fileno(), 2 * SLOTS * SLOT_BYTES)
            command = [sys.executable, "-P", "-c", _START, beside, str(memory.fileno())]
            with theirs:
                self._child = subprocess.Popen(
                    command,
                    stdin=theirs.fileno(),
                    stdout=subprocess.DEVNULL,
                    pass_fds=(memory.fileno(),),
                    process_group=0,
                )
        except BaseException:
            memory.close()
            raise
        self._memory = memory
        self._slots, self._answers = _both(memory.fileno())
        self._free_slots = threading.Semaphore(SLOTS)
        self._sent = 0
        _send(self._socket, (state, arguments))

    @property
    def pid(self) -> int:
        """Its number."""
        pid: int = self._child.pid
        return pid

    def call(self, step: Callable[..., Any], *arguments: object) -> Any:
        """Return `step(state, *arguments)`. Errors: as `send` and `receive`."""
        self.send(step, *arguments)
        return self.receive()

    def send(self, step: Callable[..., object], *arguments: object) -> None:
        """Begin a call, as soon as fewer than `SLOTS` are on their way.

        The arguments may change once it returns. Errors: Unavailable: the process is gone.
        """
        self._free_slots.acquire()
        number = self._sent % SLOTS
        try:
            _send(self._socket, (step, arguments), self._slots, number)
        except BaseException as error:
            self._free_slots.release()
            if isinstance(error, OSError):
                raise Unavailable(f"process {self.pid} is gone: {error!r}") from error
            raise
        self._sent += 1

    def receive(self) -> Any:
        """Return what the oldest call gave.

        Errors: what it raised, if its class says `is_expected`; ChildFailed; Unavailable: the
        process is gone.
        """
        try:
            result, raised = _receive(self._socket, self._answers)
        except OSError as error:
            raise Unavailable(f"process {self.pid} is gone: {error!r}") from error
        except EOFError:
            code = self._child.poll()
            raise Unavailable(f"process {self.pid} ended with {code} in the middle") from None
        finally:
            self._free_slots.release()
        if raised is not None:
            raise raised
        return result

    def kill(self) -> None:
        """End it at once, whatever it does; a call under way raises Unavailable. Never blocks."""
        self._child.kill()

    def wait(self) -> None:
        """Return when it has ended and nothing of it is left. Idempotent. Blocks."""
        self._child.wait()
        self._socket.close()
        self._memory.close()


def serve(memory: int) -> None:
    """Be the child: answer calls until the parent is gone. `memory`: the slots, a descriptor."""
    os.nice(NICE)
    connection = socket.socket(fileno=os.dup(0))
    slots, answers = _both(memory, reads_in_place=True)
    try:
        make, arguments = _receive(connection)
        state = make(*arguments)
        for number in cycle(range(SLOTS)):
            step, arguments = _receive(connection, slots)
            _send(connection, _answer(step, state, arguments), answers, number)
            del step, arguments
    except (EOFError, OSError):
        return  # the parent closed it, or is gone


def _answer(
    step: Callable[..., object], state: object, arguments: Sequence[object]
) -> tuple[object, Exception | None]:
    try:
        return step(state, *arguments), None
    except Exception as error:  # noqa: BLE001 - raised again in the parent
        if getattr(error, "is_expected", False):
            return None, error.with_traceback(None)
        return None, ChildFailed(traceback.format_exc())


class _Beside:
    """What goes beside a pickle: the parts of each buffer."""

    def __init__(self) -> None:
        self.buffers: list[Sequence[Buffer]] = []
        self.pieces: Sequence[Buffer] | None = None
        """To be taken in the place of the next buffer, an empty one."""

    def take(self, buffer: pickle.PickleBuffer) -> None:
        self.buffers.append((buffer.raw(),) if self.pieces is None else self.pieces)
        self.pieces = None


class _Pickler(pickle.Pickler):
    """Takes memoryviews: large ones as they are, small ones as bytes, and pieces together.

    It must not be part of a cycle: collecting one ends Python 3.11 (so `_Beside` is another class).
    """

    def __init__(self, body: io.BytesIO, beside: _Beside) -> None:
        super().__init__(body, 5, buffer_callback=beside.take)
        self._beside = beside

    @override
    def reducer_override(self, value: Any) -> Any:
        if type(value) is Pieces:
            assert self._beside.pieces is None, "the buffer of the last ones comes before these"
            self._beside.pieces = value
            sizes = array(_SIZES, map(len, value)).tobytes()
            return _pieces, (pickle.PickleBuffer(b""), sizes)
        if type(value) is not memoryview:
            return NotImplemented
        if value.nbytes >= LARGE_BYTES:
            return _same, (pickle.PickleBuffer(value),)
        return bytes, (bytes(value),)


def _same(value: Buffer) -> Buffer:
    return value


def _pieces(whole: memoryview, sizes: bytes) -> Joined:
    return Joined(whole, memoryview(sizes).cast(_SIZES))


class _Slots:
    """The slots' parts for one direction, as one of the processes has them."""

    def __init__(self, memory: int, first: Position, whole: memoryview | None) -> None:
        """`memory`: a descriptor. `first`: where they begin in it. `whole`: read them there."""
        self._memory, self._first, self._whole = memory, first, whole

    def put(self, number: int, parts: Sequence[Buffer]) -> None:
        """Copy buffers into one, which takes them, one behind the other."""
        _FILES.write_at(self._memory, parts, self._first + number * SLOT_BYTES)

    def get(self, number: int, size: int) -> memoryview:
        """Return the first bytes of one: a copy, or as they lie until it is put there again."""
        at = self._first + number * SLOT_BYTES
        if self._whole is not None:
            return self._whole[at : at + size]
        return memoryview(_FILES.read_at(self._memory, size, at))


def _both(memory: int, *, reads_in_place: bool = False) -> tuple[_Slots, _Slots]:
    """Return the slots' parts for calls and those for answers."""
    half = SLOTS * SLOT_BYTES
    whole = memoryview(mmap.mmap(memory, 2 * half)) if reads_in_place else None
    return _Slots(memory, 0, whole), _Slots(memory, half, whole)


def _send(
    connection: socket.socket, value: object, slots: _Slots | None = None, number: int = 0
) -> None:
    """Send a value; its large buffers go into the slot of that number, if they fit."""
    body = io.BytesIO()
    beside = _Beside()
    _Pickler(body, beside).dump(value)
    sizes = [sum(map(len, parts)) for parts in beside.buffers]
    buffers = list(chain.from_iterable(beside.buffers))
    is_shared = slots is not None and 0 < sum(sizes) <= SLOT_BYTES
    head = _HEAD.pack(body.tell(), len(sizes), number + 1 if is_shared else 0)
    parts = [memoryview(head + struct.pack(f">{len(sizes)}I", *sizes)), body.getbuffer()]
    if slots is not None and is_shared:
        slots.put(number, buffers)
    else:
        parts += map(memoryview, buffers)
    for first in range(0, len(parts), _BUFFERS_AT_ONCE):
        _send_all(connection, parts[first : first + _BUFFERS_AT_ONCE])


def _send_all(connection: socket.socket, parts: list[memoryview]) -> None:
    at = 0
    while at < len(parts):
        sent = connection.sendmsg(parts[at:])
        while at < len(parts) and sent >= len(parts[at]):
            sent -= len(parts[at])
            at += 1
        if sent:
            parts[at] = parts[at][sent:]


def _receive(connection: socket.socket, slots: _Slots | None = None) -> Any:
    """Return a value; buffers of it that lie in a slot are as `_Slots.get` has them."""
    size, count, number = _HEAD.unpack(_filled(connection, bytearray(_HEAD.size)))
    body = memoryview(_filled(connection, bytearray(4 * count + size)))
    sizes = struct.unpack(f">{count}I", body[: 4 * count])
    if number and slots is not None:
        room = slots.get(number - 1, sum(sizes))
    else:
        room = memoryview(_filled(connection, bytearray(sum(sizes))))
    return pickle.loads(body[4 * count :], buffers=_cut(room, sizes))


def _cut(room: memoryview, sizes: Sequence[int]) -> list[memoryview]:
    """Return the first part of a room in pieces."""
    ends = list(accumulate(sizes, initial=0))
    return [room[first:end] for first, end in pairwise(ends)]


def _filled(connection: socket.socket, room: Buffer) -> Buffer:
    """Fill a buffer. Errors: OSError; EOFError."""
    view = memoryview(room)
    while view:
        count = connection.recv_into(view)
        if not count:
            raise EOFError("the other end was closed")
        view = view[count:]
    return room
