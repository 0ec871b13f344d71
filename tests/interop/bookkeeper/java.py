"""Apache BookKeeper 4.17.3 as tests use it: its bookie, its shell."""

import os
import socket
import subprocess
import time
from pathlib import Path
from typing import Any, Final, Self

from tailrace.protocol.bookkeeper.codec import encode_request
from tailrace.protocol.bookkeeper.messages import BookieInfoRequest
from tests.java.jars import jars, tool
from tests.java.peers import OPEN_JVM, SMALL_JVM, JavaClient, JavaError

READY_WITHIN_S: Final = 60
STOP_WITHIN_S: Final = 30
NOT_ENOUGH_BOOKIES: Final = -6
"""BKException.Code.NotEnoughBookiesException."""

_BOOKIE_CONF: Final = """\
bookiePort={port}
metadataServiceUri={uri}
journalDirectories={path}/journal
ledgerDirectories={path}/ledgers
allowLoopback=true
advertisedAddress=127.0.0.1
listeningInterface=lo
diskUsageThreshold=0.99
diskUsageWarnThreshold=0.98
minUsableSizeForEntryLogCreation=1
minUsableSizeForIndexFileCreation=1
httpServerEnabled=false
enableStatistics=false
autoRecoveryDaemonEnabled=false
journalSyncData=true
journalPreAllocSizeMB=1
journalMaxSizeMB=16
entryLogFilePreallocationEnabled=false
skipListSizeLimit=8388608
numAddWorkerThreads=1
numReadWorkerThreads=2
numHighPriorityWorkerThreads=1
serverNumIOThreads=2
gcWaitTime=60000
zkTimeout={zk_timeout_ms}
"""


class JavaBookie:
    """A bookie of Apache BookKeeper in a process of its own; its files outlive `kill`."""

    def __init__(
        self,
        path: Path,
        uri: str,
        *,
        port: int | None = None,
        settings: tuple[str, ...] = (),
        jvm: tuple[str, ...] = (),
    ) -> None:
        """`jvm`: more of its options."""
        self._jvm = jvm
        path.mkdir(parents=True, exist_ok=True)
        self._path = path
        self.port = port or free_port()
        self.bookie_id = f"127.0.0.1:{self.port}"
        self.conf = path / "bookie.conf"
        conf = _BOOKIE_CONF.format(port=self.port, uri=uri, path=path, zk_timeout_ms=2_000)
        self.conf.write_text(conf + "\n".join(settings))
        self._child: subprocess.Popen[bytes] | None = None

    def start(self) -> Self:
        """Start it and return once it answers."""
        classpath = os.pathsep.join(map(str, jars("bookkeeper")))
        command = [tool("java"), "-Xmx256m", "-XX:MaxDirectMemorySize=256m", *SMALL_JVM, *OPEN_JVM]
        command += [
            *self._jvm,
            "-cp",
            classpath,
            "org.apache.bookkeeper.server.Main",
            "--conf",
            str(self.conf),
        ]
        with (self._path / "log").open("ab") as log:
            self._child = subprocess.Popen(command, stdout=log, stderr=log)
        deadline = time.monotonic() + READY_WITHIN_S
        while not _answers(self.port):
            assert self._child.poll() is None, self._say()
            assert time.monotonic() < deadline, self._say()
        return self

    def kill(self) -> None:
        """SIGKILL."""
        assert self._child is not None
        self._child.kill()
        self._child.wait(STOP_WITHIN_S)

    def stop(self) -> None:
        """SIGTERM, as a service manager would. Idempotent."""
        if self._child is not None and self._child.poll() is None:
            self._child.terminate()
            self._child.wait(STOP_WITHIN_S)

    def _say(self) -> str:
        return (self._path / "log").read_text(errors="replace")[-5000:]


class JavaAutoRecovery:
    """Apache's auditor and replication worker in a process of their own; a context manager."""

    def __init__(self, path: Path, uri: str) -> None:
        self._path = path
        self._conf = path / "auto-recovery.conf"
        self._conf.write_text(
            _BOOKIE_CONF.format(port=free_port(), uri=uri, path=path, zk_timeout_ms=4_000)
        )

    def __enter__(self) -> Self:
        classpath = os.pathsep.join(map(str, jars("bookkeeper")))
        command = [tool("java"), "-Xmx128m", *SMALL_JVM, *OPEN_JVM, "-cp", classpath]
        command += ["org.apache.bookkeeper.replication.AutoRecoveryMain", "-c", str(self._conf)]
        with (self._path / "auto-recovery.log").open("ab") as log:
            self._child = subprocess.Popen(command, stdout=log, stderr=log)
        return self

    def __exit__(self, *_: object) -> None:
        self._child.kill()
        self._child.wait(STOP_WITHIN_S)

    def check(self) -> None:
        """Fail with its log if it has ended."""
        assert self._child.poll() is None, (self._path / "auto-recovery.log").read_text()[-5000:]


def create(java: JavaClient, **how: Any) -> dict[str, Any]:
    """Have a ledger created once Java's client sees bookies enough.

    On a busy machine a bookie's session ends now and then: until it registers again, seconds later,
    its client counts it as gone.
    """
    deadline = time.monotonic() + READY_WITHIN_S
    while True:
        try:
            return java.call("create", **how)
        except JavaError as error:
            if error.code != NOT_ENOUGH_BOOKIES or time.monotonic() > deadline:
                raise
            time.sleep(0.05)


class JavaShell:
    """BookKeeper's shell, each command in the same JVM: it starts slower than it works."""

    def __init__(self, log: Path) -> None:
        self._peer = JavaClient(log, "bookkeeper", "ShellPeer")

    def __call__(self, uri: str, path: Path, *command: str) -> str:
        """Run a command on a cluster, or the files at `path`, and return what it prints and logs.

        Its exit code must be 0.
        """
        conf = path / "shell.conf"
        conf.write_text(
            _BOOKIE_CONF.format(port=free_port(), uri=uri, path=path, zk_timeout_ms=10_000)
        )
        done = self._peer.call("shell", conf=str(conf), args=command)
        assert done["code"] == 0, done["out"] + done["err"]
        return str(done["out"] + done["err"])

    def close(self) -> None:
        """End the JVM."""
        self._peer.close()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


def _answers(port: int) -> bool:
    """Whether a bookie answers: Java's takes connections, and drops them, before it is ready."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1) as connection:
            connection.sendall(b"".join(encode_request(1, BookieInfoRequest(0))))
            if connection.recv(1):
                return True
    except OSError:
        pass
    time.sleep(0.05)  # not a wait for anything: only the pace of the attempts
    return False
