"""Reading a log alone: a lock for readers that share its records out among themselves.

Advisory: whoever opens an ordinary reader reads all the same. The lock goes with the session of its
holder; then the next one in line reads, from where its own position says.
Source: reference DistributedLog 7.8; openAsyncLogReaderWithLock.
"""

from collections.abc import Awaitable, Callable

from tailrace.core.errors import NodeExists
from tailrace.core.log.entries import EntryRecords
from tailrace.core.log.ownership import Ownership
from tailrace.core.log.reader import LogReader
from tailrace.core.metadata.layout import LogPaths
from tailrace.core.metadata.store import MetadataStore


class LockedReader:
    """A reader that gives records out only while it holds the lock."""

    def __init__(self, reader: LogReader, claim: Ownership) -> None:
        self._reader = reader
        self._claim = claim

    async def read_entries(self, max_bytes: int) -> list[EntryRecords]:
        """Return the next records as LogReader.read_entries.

        Errors: as there; OwnershipLost while the lock is lost: nothing was taken. It is asked for
        again in the background; OwnershipAcquireFailed, its kind, when another has it for good.
        """
        self._claim.check_ownership()
        entries = await self._reader.read_entries(max_bytes)
        try:
            self._claim.check_ownership()
        except BaseException:
            self._reader.give_back(entries)
            raise
        return entries

    async def wait_for_more(self) -> None:
        """Wait as LogReader.wait_for_more."""
        await self._reader.wait_for_more()

    async def close(self) -> None:
        """Close the reader and let the next one have the lock. Idempotent."""
        await self._reader.close()
        await self._claim.release()


async def open_locked_reader(
    claim: Ownership, wait_ms: int, open_reader: Callable[[], Awaitable[LogReader]]
) -> LockedReader:
    """Wait for the lock, then open the reader.

    `wait_ms`: negative: for ever. Errors: OwnershipAcquireFailed names the holder; as
    `open_reader`. Cancel: the place in line is given up.
    """
    await claim.acquire(wait_ms)
    try:
        return LockedReader(await open_reader(), claim)
    except BaseException:
        await claim.release()
        raise


async def read_lock_path(store: MetadataStore, paths: LogPaths, subscriber: str) -> str:
    """Return where the lock is, of the log or of one of its subscribers; make the latter's."""
    if not subscriber:
        return paths.read_lock
    path = f"{paths.subscribers}/{subscriber}/readLock"
    if await store.exists(path) is None:
        try:
            await store.create(path, parents=True)
        except NodeExists:
            return path  # another reader of this subscriber was faster
    return path
