"""A process that has the modules of `tailrace` loaded, and becomes its processes by forking.

Python takes ten times as long to load them as most commands take to work, and as brokers and
bookies take to be ready. Run as a script by `tests.forks`, which says on a socket (the file
descriptor in argv) what to run. A child is a process like that of the executable, which it runs;
it ends as Python ends by itself. What it shares with its siblings, as executables do not: the
numbers that strings hash to, and so the order of sets.

A request is one message: a `Start`, with the child's standard streams and a socket for what becomes
of it. There its pid is said, and its exit code once it has ended; it stays a zombie, so that its
number is nobody else's, until the other side has heard that and shuts the socket down. Then it is
gone, and the socket closed. When the first socket ends, so does all that still runs.
"""

import importlib
import io
import json
import os
import runpy
import selectors
import signal
import socket
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypedDict

import tailrace

MESSAGE_BYTES_MAX: Final = 1 << 20
STREAMS: Final = 3
"""Standard input, output and error come with a request, then its socket."""
LOADED_LATE: Final = (
    "aiohttp.web",
    "tailrace.processes.autorecovery",
    "tailrace.processes.bookie",
    "tailrace.processes.broker",
    "tailrace.processes.proxy",
    "tailrace.processes.standalone_proxies",
    "tailrace.tools.clients.librdkafka",
    "tailrace.tools.groups.groups_admin",
    "tailrace.tools.logs.inspection",
    "tailrace.tools.records.record_reader",
    "tailrace.tools.records.record_writer",
    "tailrace.tools.security.stored_users",
    "tailrace.tools.security.users_admin",
    "tailrace.tools.topics.topics_admin",
    "tailrace.tools.transactions.txns_admin",
    "tailrace.faults.control",
    "tailrace.processes.standalone",
    "tailrace.core.log.open_namespace",
    "tailrace.core.metadata.uri",
    "encodings.idna",
    "rich.console",
    "rich.table",
)
"""What commands and servers load when they need it, besides the commands' own modules."""
NEVER_LOADED: Final = frozenset({"tailrace.core.runtime.process_secret", "numpy"})
"""What each process has to have of its own: a secret, threads, a state of random numbers."""


class Start(TypedDict):
    """What a child shall be; the first argument is the script."""

    arguments: list[str]
    environment: dict[str, str]
    folder: str


@dataclass(frozen=True)
class Child:
    """A child as its parent has it, until its asker has heard of its end."""

    pid: int
    end: int
    """Its pidfd: can be read when it has ended."""
    asker: socket.socket


class ForkServer:
    """Makes children and tells of them."""

    def __init__(self, client: socket.socket) -> None:
        self._client = client
        self._children: set[Child] = set()
        self._selector = selectors.DefaultSelector()
        self._selector.register(client, selectors.EVENT_READ)

    def next_start(self) -> Start | None:
        """Return in a child, with what it shall be; in the server at the end: None."""
        while True:
            for key, _ in self._selector.select():
                child: Child | None = key.data
                if child is None:
                    message, descriptors, _, _ = socket.recv_fds(
                        self._client, MESSAGE_BYTES_MAX, STREAMS + 1
                    )
                    if not message:
                        return None
                    if self._fork(descriptors):
                        start: Start = json.loads(message)
                        return start
                elif key.fileobj == child.end:
                    self._tell(child)
                else:
                    self._forget(child)

    def kill(self) -> None:
        """End all children that are left."""
        for child in self._children:
            os.kill(child.pid, signal.SIGKILL)

    def _fork(self, descriptors: list[int]) -> bool:
        """Tell whether this is the child now: with these streams and nothing of the parent's."""
        *streams, descriptor = descriptors
        asker = socket.socket(fileno=descriptor)
        pid = os.fork()
        if pid == 0:
            asker.close()
            self._close()
            for number, stream in enumerate(streams):
                os.dup2(stream, number)
        for stream in streams:
            os.close(stream)
        if pid:
            child = Child(pid, os.pidfd_open(pid), asker)
            self._children.add(child)
            self._selector.register(child.end, selectors.EVENT_READ, child)
            _say(asker, pid)
        return pid == 0

    def _tell(self, child: Child) -> None:
        """Say with which code it has ended, as `subprocess` has it, and keep it."""
        self._selector.unregister(child.end)
        ended = os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert ended is not None
        is_exit = ended.si_code == os.CLD_EXITED
        self._selector.register(child.asker, selectors.EVENT_READ, child)
        _say(child.asker, ended.si_status if is_exit else -ended.si_status)

    def _forget(self, child: Child) -> None:
        self._selector.unregister(child.asker)
        self._children.remove(child)
        os.waitpid(child.pid, 0)
        os.close(child.end)
        child.asker.close()

    def _close(self) -> None:
        self._selector.close()
        self._client.close()
        for child in self._children:
            os.close(child.end)
            child.asker.close()


def load() -> None:
    """Load what processes consist of; nothing of it may start a thread."""
    sys.path[0] = str(Path(tailrace.__file__).parent.parent)  # not the folder of this file
    from tailrace.core.runtime.collector import loading_modules

    with loading_modules():  # children leave it out, too, when they look for garbage
        from tailrace.tools.main import COMMANDS

        for name in (*COMMANDS.values(), *LOADED_LATE):
            importlib.import_module(name)
    assert not sys.modules.keys() & NEVER_LOADED
    assert len(os.listdir("/proc/self/task")) == 1


def become(start: Start) -> None:
    """Run it as Python runs it at its own start."""
    os.chdir(start["folder"])
    os.environ.clear()
    os.environ.update(start["environment"])
    if os.environ.get("PYTHONUNBUFFERED"):
        for name in ("stdout", "stderr"):
            stream = _unbuffered(getattr(sys, name))
            setattr(sys, name, stream)
            setattr(sys, f"__{name}__", stream)
    sys.argv = start["arguments"]
    sys.path[0] = os.path.dirname(sys.argv[0])
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _WAITING)
    runpy.run_path(sys.argv[0], run_name="__main__")


def _unbuffered(stream: io.TextIOWrapper) -> io.TextIOWrapper:
    """Return a standard stream as Python makes it with PYTHONUNBUFFERED."""
    raw = io.FileIO(stream.fileno(), "w", closefd=False)
    return io.TextIOWrapper(raw, encoding=stream.encoding, errors=stream.errors, write_through=True)


def _say(asker: socket.socket, number: int) -> None:
    try:
        asker.send(b"%d" % number)
    except BrokenPipeError:
        return  # who asked is gone, which is seen next


_WAITING: Final = {signal.SIGINT}
"""Signals from a terminal: children get them once they can; the server ends after all tests."""

if __name__ == "__main__":
    signal.pthread_sigmask(signal.SIG_BLOCK, _WAITING)
    load()
    server = ForkServer(socket.socket(fileno=int(sys.argv[1])))
    if start := server.next_start():
        become(start)
    else:
        server.kill()
