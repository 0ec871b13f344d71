"""A bookie of a cluster as its operators run it: `tailrace bookie` in a process of its own."""

from pathlib import Path
from typing import Self

from tests.ports import free_port
from tests.server_process import READY_WITHIN_S, TAILRACE, Ready, ServerProcess


class BookieUnderTest(ServerProcess):
    """`tailrace bookie` over a data folder; the same port and id at every start."""

    ready_line = "ready: bookie="

    def __init__(
        self,
        metadata: str,
        data: Path,
        *arguments: str,
        port: int = 0,
        bookie_id: str = "",
        command: Path = TAILRACE,
    ) -> None:
        """`bookie_id`: an id that is not its address."""
        super().__init__()
        self.command = command
        self.metadata = metadata
        self.data = data
        self.port = port or free_port()
        self.bookie_id = bookie_id or f"127.0.0.1:{self.port}"
        self.arguments = (*(("--set", f"bookieId={bookie_id}") if bookie_id else ()), *arguments)

    def start(self) -> Self:
        """Start it and return once it is registered and would answer."""
        named = self.launch().get(timeout=READY_WITHIN_S)
        if named is None:
            raise AssertionError(f"the bookie ended before it was ready:\n{self.output}")
        assert named == self.bookie_id
        return self

    def launch(self) -> Ready:
        """Start it; the queue gets the id of its ready line, then None at its end."""
        command = [
            str(self.command),
            "bookie",
            "--metadata",
            self.metadata,
            "--data",
            str(self.data),
        ]
        command += ["--listen", f"127.0.0.1:{self.port}", *self.arguments]
        return self.launch_command(command)

    def refused(self) -> str:
        """Start it, expect that it ends by itself without being ready, and return its output."""
        self.lines.clear()
        assert self.launch().get(timeout=READY_WITHIN_S) is None, "it started"
        assert self.end(None) != 0
        return self.output
