"""A real ZooKeeper for tests: one small JVM per test process, on a free port of 127.0.0.1."""

import os
import re
import select
import signal
import socket
import subprocess
from itertools import count
from pathlib import Path
from time import monotonic
from typing import Final, Self

from kazoo.client import KazooClient

from tests.java.jars import QUICK_JVM, jars, tool
from tests.ports import free_port

READY_WITHIN_S: Final = 60
STOP_WITHIN_S: Final = 30
PORT_ATTEMPTS_MAX: Final = 5
_CONFIG: Final = """\
tickTime=200
minSessionTimeout=400
maxSessionTimeout=60000
clientPortAddress=127.0.0.1
clientPort={port}
dataDir={data}
maxClientCnxns=0
4lw.commands.whitelist=srvr,wchs
admin.enableServer=false
"""
_roots = count()


class ZooKeeperServer:
    """One ZooKeeper. Its data outlives `kill` and `restart`; sessions expire to within 200 ms."""

    _java_options: tuple[str, ...] = ()
    _jars = "zookeeper"

    def __init__(
        self, data: Path, *, number: int = 0, peers: str = "", port: int = 0, settings: str = ""
    ) -> None:
        """`number`, `peers`, `port`: its place in an ensemble; see `Ensemble`.

        `settings`: more lines of zoo.cfg; of a name that comes twice the last counts.
        """
        self._settings = settings
        self._data = data
        self._number = number
        self._peers = peers
        self._child: subprocess.Popen[bytes] | None = None
        self.port = port

    @property
    def hosts(self) -> str:
        """Where clients connect."""
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        """The process of the server."""
        assert self._child is not None
        return self._child.pid

    @property
    def is_running(self) -> bool:
        """Whether it was started and has not ended."""
        return self._child is not None and self._child.poll() is None

    def start(self) -> Self:
        """Start it and return once it serves; the port is chosen at the first start."""
        if self.port:
            self.launch()
            assert self.is_serving(), self._log()
            return self
        for _ in range(PORT_ATTEMPTS_MAX):
            port = free_port()
            self._launch(port)
            if self.is_serving(port):
                self.port = port
                return self
            self.kill()
        raise AssertionError(f"no ZooKeeper came up:\n{self._log()}")

    def pause(self) -> None:
        """Stop it in mid-air (SIGSTOP): connections stay, nobody answers."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on after `pause`."""
        os.kill(self.pid, signal.SIGCONT)

    def kill(self) -> None:
        """Pull the plug (SIGKILL)."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """End it. Idempotent."""
        if self.is_running:
            self.resume()
            self._end(signal.SIGTERM)

    def restart(self) -> None:
        """Start it again on the same port and data, ending it first if it runs."""
        self.stop()
        self.start()

    def expire(self, session_id: int, password: bytes) -> None:
        """End somebody's session: a second client takes it over and closes it."""
        client = KazooClient(self.hosts, client_id=(session_id, password))
        client.start(READY_WITHIN_S)
        client.stop()
        client.close()

    def make_root(self) -> str:
        """Create an empty node that nobody else uses and return its path."""
        client = KazooClient(self.hosts)
        client.start(READY_WITHIN_S)
        try:
            return str(client.create(f"/test-{os.getpid()}-{next(_roots)}"))
        finally:
            client.stop()
            client.close()

    @property
    def mode(self) -> str:
        """leader, follower or standalone; empty when it does not serve."""
        found = re.search(rb"Mode: (\w+)", _ask(self.port, b"srvr"))
        return found[1].decode() if found else ""

    def launch(self) -> None:
        """Start it on its port and do not wait: alone, a server of an ensemble does not serve."""
        self._launch(self.port)

    def _launch(self, port: int) -> None:
        self._data.mkdir(parents=True, exist_ok=True)
        config = self._data / "zoo.cfg"
        own = _CONFIG.format(port=port, data=self._data / "data")
        config.write_text(own + self._peers + self._settings)
        if self._peers:
            (self._data / "data").mkdir(parents=True, exist_ok=True)
            (self._data / "data" / "myid").write_text(str(self._number))
        with (self._data / "log").open("ab") as log:
            self._child = subprocess.Popen(
                [
                    tool("java"),
                    *("-Xmx128m", *QUICK_JVM),
                    *self._java_options,
                    # What a killed process wrote stays in the page cache: no plug is pulled.
                    *("-Dzookeeper.forceSync=no", "-Dzookeeper.preAllocSize=512"),
                    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
                    *("-cp", os.pathsep.join(map(str, jars(self._jars)))),
                    "org.apache.zookeeper.server.quorum.QuorumPeerMain",
                    str(config),
                ],
                stdout=log,
                stderr=log,
            )

    def is_serving(self, port: int = 0) -> bool:
        """Wait until it serves, and say whether it does."""
        assert self._child is not None
        deadline = monotonic() + READY_WITHIN_S
        while monotonic() < deadline and self._child.poll() is None:
            if b"Mode:" in _ask(port or self.port, b"srvr"):
                return True
        return False

    def _end(self, how: signal.Signals) -> None:
        assert self._child is not None
        self._child.send_signal(how)
        self._child.wait(STOP_WITHIN_S)

    def _log(self) -> str:
        return (self._data / "log").read_text(errors="replace")


class Ensemble:
    """Three ZooKeepers that elect a leader; any two of them serve."""

    def __init__(self, folder: Path) -> None:
        numbers = range(1, 4)
        lines = [f"server.{n}=127.0.0.1:{free_port()}:{free_port()}" for n in numbers]
        peers = "\n".join(("initLimit=25", "syncLimit=15", *lines, ""))
        self.servers = [
            ZooKeeperServer(folder / f"{n}", number=n, peers=peers, port=free_port())
            for n in numbers
        ]

    @property
    def hosts(self) -> str:
        """Where clients connect."""
        return ",".join(server.hosts for server in self.servers)

    def start(self) -> Self:
        """Start all and return once they have a leader."""
        for server in self.servers:
            server.launch()
        for server in self.servers:
            assert server.is_serving()
        return self

    def leader(self) -> ZooKeeperServer:
        """Return the server that leads now."""
        return next(server for server in self.servers if server.mode == "leader")

    def stop(self) -> None:
        """End all. Idempotent."""
        for server in self.servers:
            server.stop()


def _ask(port: int, word: bytes) -> bytes:
    """Send a four-letter word; return the answer, empty while nobody answers."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1) as connection:
            connection.sendall(word)
            parts = list(iter(lambda: connection.recv(4096), b""))
    except OSError:
        select.select([], [], [], 0.05)  # not a wait for anything: only the pace of the attempts
        return b""
    return b"".join(parts)
