"""A reader who pastes the lines of a page one after the other, in a folder that was empty.

Ports and the ZooKeeper of the page are others here. `tailrace` is that of the environment; what
`make run` installs is installed. Each server starts in the background and is waited for.
"""

import os
import re
import shutil
import signal
import subprocess
from typing import Final

import pytest

from tests.cluster.cli import tailrace
from tests.docs.command_line import CommandLine, is_server, parse
from tests.docs.pages import Block
from tests.ports import free_port
from tests.server_process import READY_WITHIN_S, TAILRACE, ServerProcess

_PORT: Final = re.compile(r"((?:127\.0\.0\.1|localhost):|[pP]ort=)([1-9]\d*)")
_ZOOKEEPER: Final = "127.0.0.1:2181/"
_ENDS_WITHIN_S: Final = 60
_INSTALLED: Final[dict[tuple[str, ...], tuple[str, ...] | None]] = {
    ("make", "run"): ("tailrace", "start"),
    (".", ".venv/bin/activate"): None,
}
"""What lines that install mean where all is installed: another command, or nothing."""
_DEFAULTS: Final = {"TAILRACE_BOOTSTRAP": 9092, "TAILRACE_ADMIN": 9094}


class Places:
    """Where the addresses of a page are here."""

    def __init__(self, zookeeper_port: int = 0, root: str = "") -> None:
        """`zookeeper_port`, `root`: a node of a ZooKeeper that stands for that of the page."""
        self._root = root
        self._ports = {"2181": zookeeper_port} if root else {}

    def port(self, named: str) -> int:
        """Return the port that stands for one that a page names."""
        if named not in self._ports:
            self._ports[named] = free_port()
        return self._ports[named]

    def here(self, text: str) -> str:
        """Return a line of a page with the addresses of here."""
        assert self._root or ":2181" not in text, "the block has no note `needs: zookeeper`"
        text = text.replace(_ZOOKEEPER, f"{_ZOOKEEPER.removesuffix('/')}{self._root}/")
        return _PORT.sub(lambda found: f"{found[1]}{self.port(found[2])}", text)

    def there(self, text: str) -> str:
        """Return what was printed here as the page has it."""
        for named, port in self._ports.items():
            text = re.sub(rf"\b{port}\b", named, text)
        return text.replace(self._root, "") if self._root else text


class Server(ServerProcess):
    """A command that serves until it is stopped."""

    ready_line = "ready: "

    def start(self, words: tuple[str, ...]) -> None:
        """Start it and return once it is ready."""
        ready = self.launch_command([str(TAILRACE), *words]).get(timeout=READY_WITHIN_S)
        assert ready is not None, f"{words} ended before it was ready:\n{self.output}"

    def send(self, how: signal.Signals) -> None:
        """Send it a signal."""
        os.kill(self.pid, how)


class Reader:
    """One reader of one page; the environment is that of the test's process."""

    def __init__(self, places: Places, environment: pytest.MonkeyPatch) -> None:
        self._places = places
        self._environment = environment
        self._servers: list[Server] = []
        for name, port in _DEFAULTS.items():
            environment.setenv(name, f"127.0.0.1:{places.port(str(port))}")

    def paste(self, block: Block) -> str:
        """Run all lines of a block; return what they printed, as the page would have it."""
        printed = [self._run(line, f"{block.place}: {line}") for line in block.lines]
        return self._places.there("".join(printed))

    def close(self) -> None:
        """End all servers that still run."""
        for server in reversed(self._servers):
            server.close()

    def _run(self, line: str, place: str) -> str:
        command = parse(self._places.here(line))
        if command is None:
            return ""
        first = command.commands[0]
        words = _INSTALLED.get(first, first)
        if words is None:
            return ""
        if is_server(words):
            return self._serve(words)
        assert not command.is_background, f"{place}: only servers run in the background here"
        if words[0] == "export":
            self._environment.setenv(*words[1].split("=", 1))
        elif words[0] == "kill":
            self._job(words).send(signal.SIGKILL if "-9" in words else signal.SIGTERM)
        elif words[0] == "wait":
            self._job(words).end(None)
        else:
            return self._pipe(command, place)
        return ""

    def _serve(self, words: tuple[str, ...]) -> str:
        own = []
        if words[1] in ("start", "broker"):
            own = ["--set", "group.initial.rebalance.delay.ms=0"]
            if "--listen" not in words:
                own += ["--listen", f"127.0.0.1:{self._places.port('9092')}"]
            if "admin.http.enable=true" in words:
                own += ["--set", f"admin.http.port={self._places.port('9094')}"]
        server = Server()
        self._servers.append(server)
        server.start((*words[1:], *own))
        return server.output + "\n"

    def _job(self, words: tuple[str, ...]) -> Server:
        """Return the n-th server of the page: a shell has it as its n-th job."""
        return self._servers[int(words[-1].removeprefix("%")) - 1]

    def _pipe(self, line: CommandLine, place: str) -> str:
        """Run commands, each with the output of the one before it; return what the last prints."""
        printed, errors = b"", b""
        for words in line.commands:
            if words[0] == "tailrace":
                done = tailrace(*words[1:], stdin=printed)
            else:
                done = _other(words, printed)
            printed, errors = done.stdout, done.stderr
            assert done.returncode == 0, f"{place}\n{(printed + errors).decode()}"
        text = (printed + errors).decode()
        return text if text.endswith("\n") else f"{text}\n"


def _other(words: tuple[str, ...], stdin: bytes) -> "subprocess.CompletedProcess[bytes]":
    program = shutil.which(words[0])
    if program is None:
        pytest.skip(f"{words[0]} is not installed")
    failing = ["--fail"] if words[0] == "curl" else []  # else an error over HTTP is none
    return subprocess.run(
        [program, *failing, *words[1:]],
        input=stdin,
        capture_output=True,
        timeout=_ENDS_WITHIN_S,
        check=False,
        env=os.environ,
    )


def shows(printed: str, expected: Block) -> bool:
    """Whether the lines that a page shows were printed in this order; `...` stands for anything."""
    lines = (" ".join(line.split()) for line in printed.splitlines())
    for wanted in filter(None, expected.lines):
        parts = " ".join(wanted.split()).split("...")
        pattern = re.compile(".*".join(map(re.escape, parts)))
        if not any(pattern.fullmatch(line) for line in lines):
            return False
    return True
