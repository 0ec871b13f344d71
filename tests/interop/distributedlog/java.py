"""Apache DistributedLog 4.17.3 as tests use it: a namespace, and a log in it."""

import asyncio
from typing import Any

from tailrace.protocol.distributedlog.dlsn import DLSN, INITIAL
from tests.interop.distributedlog.records import SIZE, Seen
from tests.java.peers import JavaClient, JavaError


class JavaLog:
    """A log through Java's library; `client` names the namespace and its settings."""

    def __init__(self, peer: JavaClient, client: str, log: str) -> None:
        self._peer = peer
        self._client = client
        self._log = log

    async def ask(self, op: str, **fields: Any) -> dict[str, Any]:
        """Do a command on the log. Errors: JavaError."""
        how = {"client": self._client, "log": self._log, **fields}
        return await asyncio.wrap_future(self._peer.start(op, **how))

    async def open_writer(self) -> "JavaWriter":
        """Own the log. Errors: JavaError."""
        return JavaWriter(self._peer, (await self.ask("open_writer"))["handle"])

    async def wait_for_ownership(self) -> "JavaWriter":
        """Own the log with a second attempt if one is needed. Errors: JavaError.

        Java reads the metadata before it waits for the lock, so what it knows may be stale then.
        """
        try:
            return await self.open_writer()
        except JavaError as error:
            if error.name not in ("NodeExistsException", "BadVersionException"):
                raise
            return await self.open_writer()

    async def open_reader(self, dlsn: DLSN = INITIAL) -> "JavaReader":
        """Open a reader that stays. Errors: JavaError."""
        return JavaReader(self._peer, (await self.ask("open_reader", dlsn=dlsn))["handle"])

    async def read(self, count: int, **where: Any) -> list[Seen]:
        """Read so many records from a `dlsn` or `txid` on, at first from the beginning."""
        answer = await self.ask("read", count=count, **where)
        assert "ended" not in answer, answer["ended"]
        return [Seen.by_java(record) for record in answer["records"]]

    async def read_to_end(self) -> list[Seen]:
        """Read a log that was sealed."""
        answer = await self.ask("read", count=1 << 30)
        assert answer["ended"] == "EndOfStreamException"
        return [Seen.by_java(record) for record in answer["records"]]

    async def segments(self) -> list[dict[str, Any]]:
        """Return what the metadata says of each segment, oldest first."""
        found: list[dict[str, Any]] = (await self.ask("segments"))["segments"]
        return found

    async def count(self) -> int:
        """Return getLogRecordCount."""
        return int((await self.ask("numbers"))["count"])


class _Handle:
    def __init__(self, peer: JavaClient, handle: int) -> None:
        self._peer = peer
        self._handle = handle

    async def ask(self, op: str, **fields: Any) -> dict[str, Any]:
        """Do a command on what is open. Errors: JavaError."""
        return await asyncio.wrap_future(self._peer.start(op, handle=self._handle, **fields))

    async def close(self) -> None:
        """Close it; a writer completes its segment."""
        await self.ask("close")


class JavaWriter(_Handle):
    """A writer of Java's, which shows each record to readers at once."""

    async def write(
        self, seed: int, first: int, count: int, *, size: int = SIZE, **how: Any
    ) -> list[DLSN]:
        """Write records `first`, `first` + 1, ...; return where they are. Errors: JavaError."""
        fields = {"seed": seed, "first": first, "count": count, "size": size, **how}
        answer = await self.ask("write", **fields)
        return [DLSN(*dlsn) for dlsn in answer["dlsns"]]

    async def abort(self) -> None:
        """Let go of the log and leave the segment as it is."""
        await self.ask("abort")


class JavaReader(_Handle):
    """A reader of Java's."""

    async def read(self, count: int) -> list[Seen]:
        """Read on; wait until there are so many."""
        answer = await self.ask("next", count=count)
        assert "ended" not in answer, answer["ended"]
        return [Seen.by_java(record) for record in answer["records"]]
