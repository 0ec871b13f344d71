"""A bookie cluster with one log, and processes that move its segments to cold storage and back."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, Final, Self

from tests.bookie_process import BookieUnderTest
from tests.cluster.cli import output
from tests.zookeeper import ZooKeeperServer

ROOT: Final = Path(__file__).parents[2]
_TIMEOUT_S: Final = 120


class ColdCluster:
    """One ZooKeeper root, one bookie, one namespace, one place for cold storage."""

    def __init__(
        self, zookeeper: ZooKeeperServer, folder: Path, cold: dict[str, Any],
    ) -> None:  # fmt: skip
        """`cold`: fields of ColdConfig."""
        root = zookeeper.make_root()
        self.metadata = f"zk://{zookeeper.hosts}{root}/ledgers"
        self.namespace = f"distributedlog://{zookeeper.hosts}{root}/messaging/test"
        self.cold = cold
        self._bookie = BookieUnderTest(self.metadata, folder / "bookie")

    def __enter__(self) -> Self:
        output("cluster", "init", "--metadata", self.metadata)
        self._bookie.start()
        self.step("bind")
        return self

    def __exit__(self, *_: object) -> None:
        self._bookie.close()

    def step(self, step: str, **given: Any) -> Any:
        """Run one step in a process of its own; return what it prints last."""
        done = subprocess.run(
            self.command(step, **given), cwd=ROOT, capture_output=True, timeout=_TIMEOUT_S,
            check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr.decode()
        return json.loads(done.stdout.splitlines()[-1])

    def kill_while_copying(self, **cold: Any) -> None:
        """Begin to copy, and end the process with SIGKILL when a part of an object is written."""
        command = self.command("copy_slowly", cold={**self.cold, **cold})
        child = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE)
        try:
            assert child.stdout is not None
            assert json.loads(child.stdout.readline()) == "copying"
        finally:
            os.kill(child.pid, signal.SIGKILL)
            child.wait(_TIMEOUT_S)
            child.stdout.close()  # type: ignore[union-attr]  # asked for above

    def cli(self, *arguments: str, code: int = 0) -> str:
        """Run `tailrace cold ...` there; return stdout."""
        command = [sys.executable, "-m", "tailrace", "cold", *arguments]
        where = ["--metadata", self.metadata, "--namespace", self.namespace]
        if arguments[0] != "status":
            where += ["--cold", self.cold["url"], "--cold-options", self.cold.get("options", "{}")]
        done = subprocess.run(
            [*command, *where], cwd=ROOT, capture_output=True, timeout=_TIMEOUT_S, check=False
        )
        assert done.returncode == code, done.stderr.decode()
        assert b"Traceback" not in done.stderr
        return done.stdout.decode()

    def command(self, step: str, **given: Any) -> list[str]:
        """Return the command line of a step."""
        given = {
            "metadata": self.metadata, "namespace": self.namespace, "cold": self.cold, **given,
        }  # fmt: skip
        return [sys.executable, "-m", "tests.cluster.cold_program", step, json.dumps(given)]
