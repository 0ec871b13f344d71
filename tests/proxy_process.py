"""Proxies as their operators run them: `tailrace proxy write|read` in a process of its own."""

from typing import Self

from tests.ports import free_port
from tests.server_process import READY_WITHIN_S, TAILRACE, ServerProcess


class WriteProxyUnderTest(ServerProcess):
    """`tailrace proxy write` of a namespace. It keeps its address when it is started again."""

    ready_line = "ready: proxy="
    kind = "write"

    def __init__(self, metadata: str, namespace: str, shard: int, *arguments: str) -> None:
        super().__init__()
        self.shard = shard
        self.at = f"127.0.0.1:{free_port()}"
        self.named_at = ""
        """Where it says that clients connect to."""
        self._command = [
            *(str(TAILRACE), "proxy", self.kind, "--metadata", metadata, "--namespace", namespace),
            *("--shard", str(shard), *arguments),
        ]

    @property
    def location(self) -> str:
        """As answers name it."""
        return f"1;{self.shard};{self.at}"

    def start(self, attempts: int = 1) -> Self:
        """Start it and return once clients find it; if it ends, start it again as a supervisor."""
        for _ in range(attempts):
            named = self._launch()
            if named is not None:
                self.named_at = named
                return self
            self.end(None)
        raise AssertionError(f"it ended before it was ready:\n{self.output}")

    def refused(self) -> str:
        """Start it, expect that it ends by itself without being ready, and return its output."""
        assert self._launch() is None, "it started"
        assert self.end(None) != 0
        return self.output

    def _launch(self) -> str | None:
        """Start it; return where it listens, None if it ended before it did."""
        command = [*self._command, "--listen", self.at]
        return self.launch_command(command).get(timeout=READY_WITHIN_S)


class ReadProxyUnderTest(WriteProxyUnderTest):
    """`tailrace proxy read`, the same way."""

    kind = "read"
