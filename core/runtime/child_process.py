"""A process of our own that computes beside this one: Python computes on one core per process.

A call is a function with its arguments, pickled; large buffers go as they are, from and to the
sockets, without being copied first. Calls are answered one after the other. The child ends with
its parent, however that ends: its socket is then at its end. It hears no Ctrl-C of its parent's
terminal and runs at a lower priority, so that who serves comes first.

Frame: u32 length of what is pickled, u32 count of buffers, u32 length of each, then all of it.
"""

import io
import os
import pickle
import socket
import struct
import subprocess
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from typing_extensions import override

from core.errors import Unavailable
from protocol.ids import Buffer

NICE: Final = 5
"""Added to the parent's: about a third of a share where both want the same core."""
LARGE_BYTES: Final = 2048
"""Buffers from this size on are not copied into what is pickled."""
_BUFFERS_AT_ONCE: Final = 512  # a system call takes 1024
_HEAD: Final = struct.Struct(">II")
_START: Final = (
    "import sys; sys.path.insert(0, sys.argv[1]); "
    "from core.runtime.child_process import serve; serve()"
)


class ChildFailed(Exception):
    """A call raised in the child what no caller expects: its traceback, as text."""


class ChildProcess:
    """One such process, as its parent has it. Calls block: in a thread, one at a time.

    Invariant: after Unavailable the two may have lost step; only `kill` and `wait` are left.
    """

    def __init__(self, state: Callable[..., object], *arguments: object) -> None:
        """Start it; `state(*arguments)` is made there, the first argument of each call.

        Functions and values are known to both by their modules' names. Cost: 0.1 s, and what the
        modules take that it loads.
        """
        self._socket, theirs = socket.socketpair()
        house = str(Path(__file__).resolve().parents[2])
        command = [sys.executable, "-P", "-c", _START, house]
        with theirs:
            self._child = subprocess.Popen(
                command, stdin=theirs.fileno(), stdout=subprocess.DEVNULL, start_new_session=True
            )
        self._room = bytearray()
        self._send((state, arguments))

    @property
    def pid(self) -> int:
        """Its number."""
        pid: int = self._child.pid
        return pid

    def call(self, step: Callable[..., Any], *arguments: object) -> Any:
        """Return `step(state, *arguments)`. Buffers in it are valid until the next call.

        Errors: what it raised, if its class says `is_expected`; ChildFailed; Unavailable: the
        process is gone.
        """
        try:
            self._send((step, arguments))
            answer, self._room = _receive(self._socket, self._room)
        except OSError as error:
            raise Unavailable(f"process {self.pid} is gone: {error!r}") from error
        except EOFError:
            code = self._child.poll()
            raise Unavailable(f"process {self.pid} ended with {code} in the middle") from None
        result, raised = answer
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

    def _send(self, value: object) -> None:
        _send(self._socket, value)


def serve() -> None:
    """Be the child: answer calls until the parent is gone."""
    os.nice(NICE)
    connection = socket.socket(fileno=os.dup(0))
    room = bytearray()
    try:
        (make, arguments), room = _receive(connection, room)
        state = make(*arguments)
        while True:
            (step, arguments), room = _receive(connection, room)
            _send(connection, _answer(step, state, arguments))
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


class _Pickler(pickle.Pickler):
    """Takes memoryviews: large ones as they are, small ones as bytes."""

    @override
    def reducer_override(self, value: Any) -> Any:
        if type(value) is not memoryview:
            return NotImplemented
        if value.nbytes >= LARGE_BYTES:
            return _same, (pickle.PickleBuffer(value),)
        return bytes, (bytes(value),)


def _same(value: Buffer) -> Buffer:
    return value


def _send(connection: socket.socket, value: object) -> None:
    views: list[memoryview] = []
    body = io.BytesIO()
    _Pickler(body, 5, buffer_callback=lambda buffer: views.append(buffer.raw())).dump(value)
    sizes = [len(view) for view in views]
    head = _HEAD.pack(body.tell(), len(sizes)) + struct.pack(f">{len(sizes)}I", *sizes)
    parts = [memoryview(head), body.getbuffer(), *views]
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


def _receive(connection: socket.socket, room: bytearray) -> tuple[Any, bytearray]:
    """Return a value, and the room that its large buffers lie in: to be used for the next one."""
    size, count = _HEAD.unpack(_filled(connection, bytearray(_HEAD.size)))
    body = memoryview(_filled(connection, bytearray(4 * count + size)))
    sizes = struct.unpack(f">{count}I", body[: 4 * count])
    total = sum(sizes)
    if len(room) < total:
        room = bytearray(total)
    view = memoryview(room)
    _filled(connection, view[:total])
    buffers = []
    at = 0
    for each in sizes:
        buffers.append(view[at : at + each])
        at += each
    return pickle.loads(body[4 * count :], buffers=buffers), room


def _filled(connection: socket.socket, room: Buffer) -> Buffer:
    """Fill a buffer. Errors: OSError; EOFError."""
    view = memoryview(room)
    while view:
        count = connection.recv_into(view)
        if not count:
            raise EOFError("the other end was closed")
        view = view[count:]
    return room
