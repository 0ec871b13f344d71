"""A broker as its users run it: the command line in a process of its own, on a port of its own."""

from pathlib import Path
from typing import Self

from tests.server_process import READY_WITHIN_S, TAILRACE, ServerProcess


class TailraceProcess(ServerProcess):
    """`tailrace start` over a data folder; the port is the one that the ready line names.

    Settings are `--set` pairs. A group's first rebalance is not delayed, because nothing here waits
    for further members.
    """

    ready_line = "ready: bootstrap="

    def __init__(self, data: Path, *arguments: str, command: Path = TAILRACE) -> None:
        super().__init__()
        self.data = data
        self.arguments = arguments
        self.command = command
        self.bootstrap = ""

    def start(self, listen: str = "127.0.0.1:0") -> Self:
        """Start it and return once the first request would be answered."""
        bootstrap = self._launch(listen)
        if bootstrap is None:
            raise AssertionError(f"the broker ended before it was ready:\n{self.output}")
        self.bootstrap = bootstrap
        return self

    def refused(self, listen: str = "127.0.0.1:0") -> str:
        """Start it, expect that it ends by itself without being ready, and return its output."""
        assert self._launch(listen) is None, "it started"
        assert self.end(None) != 0
        return self.output

    def restart(self) -> Self:
        """Start again over the same data and on the same port, as clients expect of a broker."""
        return self.start(self.bootstrap)

    def role(self) -> list[str]:
        """Return the sub-command, and where what it keeps lies."""
        return ["start", "--data", str(self.data)]

    @property
    def port(self) -> int:
        """The port it listens on."""
        return int(self.bootstrap.rpartition(":")[2])

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    def _launch(self, listen: str) -> str | None:
        """Start it; return where it listens, None if it ended before it did."""
        command = [str(self.command), *self.role(), "--listen", listen]
        command += ["--set", "group.initial.rebalance.delay.ms=0", *self.arguments]
        return self.launch_command(command).get(timeout=READY_WITHIN_S)
