"""Java libraries as tests use them: a program of tests/java behind a pipe."""

import json
import subprocess
import threading
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Final

from tests.java.jars import QUICK_JVM, main_class

ANSWER_WITHIN_S: Final = 60
STOP_WITHIN_S: Final = 30

SMALL_JVM: Final = (*QUICK_JVM, "-Xss512k")
OPEN_JVM: Final = (
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Djava.net.preferIPv4Stack=true",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/jdk.internal.misc=ALL-UNNAMED",
    "--add-opens=java.base/java.io=ALL-UNNAMED",
    "--add-opens=java.base/java.util.zip=ALL-UNNAMED",
)


class JavaError(Exception):
    """An exception of Java's side: `name` is its class, `code` its library's number or 0."""

    def __init__(self, answer: dict[str, Any]) -> None:
        super().__init__(f"{answer['error']}: {answer['message']}")
        self.name: str = answer["error"]
        self.code: int = answer["code"]
        self.answer = answer


class JavaClient:
    """A program of tests/java that is a Peer: commands in, answers as dictionaries."""

    def __init__(
        self,
        log: Path,
        pom: str = "bookkeeper",
        peer: str = "LedgerPeer",
        against: str | None = None,
        jvm: tuple[str, ...] = (),
    ) -> None:
        """`jvm`: more of its options."""
        self._log = log.open("ab")
        java, *rest = main_class(pom, peer, against)
        command = [
            java,
            "-Xmx192m",
            "-XX:MaxDirectMemorySize=256m",
            *SMALL_JVM,
            *OPEN_JVM,
            *jvm,
            *rest,
        ]
        self._child = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, text=True
        )
        self._asked: dict[int, Future[dict[str, Any]]] = {}
        self._last = 0
        self._lock = threading.Lock()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def start(self, op: str, **fields: Any) -> "Future[dict[str, Any]]":
        """Begin a command; its future has the answer, or a JavaError."""
        future: Future[dict[str, Any]] = Future()
        future.set_running_or_notify_cancel()  # an answer comes, whoever waits for it
        assert self._child.stdin is not None
        with self._lock:
            self._last = number = self._last + 1
            self._asked[number] = future
            self._child.stdin.write(json.dumps({"id": number, "op": op, **fields}) + "\n")
            self._child.stdin.flush()
        return future

    def call(self, op: str, **fields: Any) -> dict[str, Any]:
        """Do a command. Errors: JavaError."""
        return self.start(op, **fields).result(ANSWER_WITHIN_S)

    def close(self) -> None:
        """End it as it is told to: by the end of its input."""
        assert self._child.stdin is not None
        self._child.stdin.close()
        self._end()

    def kill(self) -> None:
        """SIGKILL; what was asked for and not answered fails."""
        self._child.kill()
        assert self._child.stdin is not None
        self._child.stdin.close()
        self._end()

    def _end(self) -> None:
        self._child.wait(STOP_WITHIN_S)
        self._reader.join(STOP_WITHIN_S)
        assert self._child.stdout is not None
        self._child.stdout.close()
        self._log.close()

    def _read(self) -> None:
        assert self._child.stdout is not None
        for line in self._child.stdout:
            answer = json.loads(line)
            future = self._asked.pop(answer["id"])
            if "error" in answer:
                future.set_exception(JavaError(answer))
            else:
                future.set_result(answer)
        for future in self._asked.values():
            future.set_exception(AssertionError("Java's client ended"))


class LinePeer:
    """A program of tests/java that answers each line with one."""

    def __init__(self, pom: str, name: str) -> None:
        """Run tests/java/<pom>/<name>.java."""
        self._process = subprocess.Popen(
            main_class(pom, name),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            encoding="utf-8",
            bufsize=1,
        )

    def line(self, asked: str) -> str:
        """Return the answer, without its end."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(asked + "\n")
        answer = self._process.stdout.readline()
        assert answer, "the peer is gone"
        return answer.rstrip("\n")

    def close(self) -> None:
        """End the JVM: by the end of its input."""
        self._process.communicate(timeout=STOP_WITHIN_S)
