"""Auto-recovery as its operators run it: `tailrace autorecovery` in a process of its own."""

from typing import Self

from tests.server_process import READY_WITHIN_S, TAILRACE, ServerProcess


class AutoRecoveryUnderTest(ServerProcess):
    """`tailrace autorecovery` of a cluster, under a name."""

    ready_line = "ready: autorecovery="

    def __init__(self, metadata: str, name: str, *arguments: str) -> None:
        super().__init__()
        self.metadata = metadata
        self.name = name
        self.arguments = arguments

    def start(self) -> Self:
        """Start it and return once it votes and takes work."""
        named = self._launch()
        if named is None:
            raise AssertionError(f"it ended before it was ready:\n{self.output}")
        assert named == self.name
        return self

    def refused(self) -> str:
        """Start it, expect that it ends by itself without being ready, and return its output."""
        assert self._launch() is None, "it started"
        assert self.end(None) != 0
        return self.output

    def _launch(self) -> str | None:
        command = [str(TAILRACE), "autorecovery", "--metadata", self.metadata]
        command += ["--set", f"bookieId={self.name}", *self.arguments]
        return self.launch_command(command).get(timeout=READY_WITHIN_S)
