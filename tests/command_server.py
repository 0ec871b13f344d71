"""A process that has the modules of `tailrace` loaded, and becomes its commands by forking.

Python takes ten times as long to load them as most commands take to work. Run as a script by
`tests.commands`, which says on a socket (the file descriptor in argv) what to run, one at a time.
A child is a process like that of the executable, which it runs; it ends as Python ends by itself.
"""

import gc
import importlib
import json
import os
import runpy
import socket
import sys
from typing import Final, TypeAlias

from tailrace import house

MESSAGE_BYTES_MAX: Final = 1 << 20
STREAMS: Final = 3
"""Standard input, output and error of a command come with it."""
LOADED_LATE: Final = (
    "broker.cli.clients",
    "broker.cli.groups_admin",
    "broker.cli.inspection",
    "broker.cli.record_reader",
    "broker.cli.record_writer",
    "broker.cli.topics_admin",
    "broker.cli.txns_admin",
    "core.log.open_namespace",
    "core.metadata.uri",
    "rich.console",
    "rich.table",
)
"""What commands load when they need it, besides their own modules."""

Command: TypeAlias = dict[str, list[str] | dict[str, str]]


def load() -> None:
    """Load what commands consist of; nothing of it may start a thread."""
    sys.path.insert(0, str(house()))
    from broker.cli.main import COMMANDS

    for name in (*COMMANDS.values(), *LOADED_LATE):
        importlib.import_module(name)
    gc.freeze()  # else each child would copy all of it, when it looks for garbage


def next_command(client: socket.socket) -> Command | None:
    """Return in a child, with what it shall run on its streams; in the server at the end: None."""
    while True:
        message, streams, _, _ = socket.recv_fds(client, MESSAGE_BYTES_MAX, STREAMS)
        if not message:
            return None
        pid = os.fork()
        if pid == 0:
            client.close()
            for number, stream in enumerate(streams):
                os.dup2(stream, number)
                os.close(stream)
            command: Command = json.loads(message)
            return command
        for stream in streams:
            os.close(stream)
        client.send(b"%d" % pid)
        client.send(b"%d" % os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))


def become(command: Command) -> None:
    """Run it as Python runs it at its own start."""
    arguments, environment = command["arguments"], command["environment"]
    assert isinstance(arguments, list)
    assert isinstance(environment, dict)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = arguments
    sys.path[1] = os.path.dirname(arguments[0])  # as Python does; house() is before it
    runpy.run_path(arguments[0], run_name="__main__")


if __name__ == "__main__":
    load()
    if command := next_command(socket.socket(fileno=int(sys.argv[1]))):
        become(command)
