"""Cold storage of one cluster: segments in, verified objects out, and back again.

Invariant: what `copy` returns was read back and verified, and its name is nobody else's. Names:

    <instance id of the cluster>/<path of the log>/<18 digits of LSSN>-<ledger id>-<8 hex>.cold

Two processes that copy one segment make two objects; the metadata names one, and whoever comes
second deletes its own. What a crash leaves is deleted with the next copy of that segment, or when
the segment is deleted; a killed process' unfinished upload to S3 is for a rule of the bucket.
"""

import asyncio
import logging
import re
from collections.abc import AsyncIterator, Iterable
from random import Random
from typing import Final
from urllib.parse import quote

from tailrace.core.errors import ColdObjectCorrupt, ColdStorageUnavailable, CoreError
from tailrace.core.log.cold.config import ColdConfig
from tailrace.core.log.cold.format import Header
from tailrace.core.log.cold.metrics import ColdMetrics
from tailrace.core.log.cold.nodes import ColdSegment
from tailrace.core.log.cold.object_writer import ObjectWriter
from tailrace.core.log.cold.objects import Objects
from tailrace.core.log.cold.pace import Pace
from tailrace.core.log.cold.reader import ColdReader, open_object
from tailrace.core.log.cold.verify import verify_object
from tailrace.core.log.segment_ledger import SegmentLedger
from tailrace.core.metadata.segment_metadata import SegmentMetadata, encode_segment
from tailrace.core.runtime.files import Files
from tailrace.protocol.bookkeeper.entry import Entry
from tailrace.protocol.ids import LedgerId

logger = logging.getLogger(__name__)

SUFFIX: Final = ".cold"
_NAME: Final = re.compile(r"\d{18}-\d+-[0-9a-f]{8}\.cold")
_READ_ENTRIES_MAX: Final = 256


class ColdStore:
    """Cold storage as the logs of a process use it."""

    def __init__(
        self,
        config: ColdConfig,
        cluster: str,
        rng: Random | None = None,
        files: Files | None = None,
    ) -> None:
        """`cluster`: the instance id. `rng`: the last part of names; seeded by the system."""
        self.metrics = ColdMetrics()
        self.config = config
        self.objects = Objects(config, files)
        self._cluster = cluster
        self._rng = rng or Random()
        self._uploads = asyncio.Semaphore(config.uploads_max)
        self._pace = Pace(config.upload_bytes_per_s)

    async def copy(self, log: str, segment: SegmentMetadata, ledger: SegmentLedger) -> ColdSegment:
        """Copy a completed segment, read the copy back, and return what the metadata is to say.

        `log`: its path in the metadata. Waits for its turn, tries as often as configured.
        Errors: ColdStorageUnavailable; ColdObjectCorrupt, when what is read back is not what was
        written; CoreError of the ledger. Cancel, errors: no object is left, if the store lets us.
        Memory: one block, what the ledger's reads bring, and one part of the upload.
        """
        assert ledger.is_closed, "a segment is copied when its end is fixed"
        async with self._uploads:
            self.metrics.uploads += 1
            try:
                return await self._copy_with_retries(log, segment, ledger)
            finally:
                self.metrics.uploads -= 1

    async def open(self, cold: ColdSegment) -> ColdReader:
        """Open a segment for reading. Errors: as ColdReader.read. Cost: one ranged read."""
        return await open_object(cold, self.objects, self.metrics)

    async def verify(self, cold: ColdSegment) -> None:
        """Read a segment's object whole. Errors: ColdObjectNotFound, ColdObjectCorrupt."""
        found = await verify_object(cold.name, self.objects, self.config.part_bytes)
        said = (cold.size_bytes, cold.index_at, cold.crc32c, cold.payload_bytes)
        is_one = (found.size_bytes, found.index_at, found.blocks.crc32c, found.header.payload_bytes)
        if said != is_one or found.header.lssn != cold.metadata.lssn:
            raise ColdObjectCorrupt(f"{cold.name} verifies, but the metadata means another object")

    def prefix(self, log: str, lssn: int, ledger_id: LedgerId) -> str:
        """Return what the names of all objects of a segment and ledger begin with."""
        return f"{self._directory(log)}/{lssn:018d}-{ledger_id}-"

    async def delete(self, prefix: str) -> None:
        """Delete all objects of one segment and ledger (ColdSegment.prefix). Idempotent."""
        await self._delete(await self._names_of(prefix))

    async def delete_others(self, cold: ColdSegment) -> None:
        """Delete what other copies of the segment left behind. Errors: ColdStorageUnavailable."""
        await self._delete(set(await self._names_of(cold.prefix)) - {cold.name})

    async def names(self, log: str) -> list[str]:
        """Return the names of all objects of a log. Errors: ColdStorageUnavailable."""
        names = await self.objects.names(self._directory(log))
        return [name for name in names if _NAME.fullmatch(name.rpartition("/")[2])]

    async def close(self) -> None:
        """End the threads. Cost: waits for calls on their way, up to their time limit."""
        await self.objects.close()

    # ------------------------------------------------------------------ inside

    def _directory(self, log: str) -> str:
        return f"{self._cluster}/{quote(log.strip('/'))}"

    def _new_name(self, log: str, segment: SegmentMetadata) -> str:
        token = f"{self._rng.getrandbits(32):08x}"
        return f"{self.prefix(log, segment.lssn, segment.ledger_id)}{token}{SUFFIX}"

    async def _names_of(self, prefix: str) -> list[str]:
        names = await self.objects.names(prefix.rpartition("/")[0])
        return [name for name in names if name.startswith(prefix)]

    async def _delete(self, names: Iterable[str]) -> None:
        for name in sorted(names):
            await self.objects.delete(name)
            self.metrics.deleted_objects_total += 1
            logger.info("cold_object_deleted name=%s", name)

    async def _copy_with_retries(
        self, log: str, segment: SegmentMetadata, ledger: SegmentLedger
    ) -> ColdSegment:
        pause_s = self.config.retry_pause_ms / 1000
        for left in range(self.config.attempts - 1, -1, -1):
            try:
                return await self._copy(log, segment, ledger)
            except (ColdStorageUnavailable, ColdObjectCorrupt) as error:
                self.metrics.failed_copies_total += 1
                if not left:
                    raise
                logger.warning("cold_copy_again lssn=%d error=%s", segment.lssn, error)
            await asyncio.sleep(pause_s)
            pause_s *= 2
        raise AssertionError("at least one attempt is made")

    async def _copy(self, log: str, segment: SegmentMetadata, ledger: SegmentLedger) -> ColdSegment:
        name = self._new_name(log, segment)
        namespace, _, stream = log.rpartition("/")
        header = Header(
            namespace=namespace,
            log=stream,
            lssn=segment.lssn,
            ledger_id=ledger.ledger_id,
            entries=ledger.last_confirmed + 1,
            payload_bytes=ledger.length,
            segment=encode_segment(segment).decode(),
        )
        writer = ObjectWriter(header, self.config.block_bytes)
        try:
            await self._upload(name, writer, ledger)
            cold = ColdSegment(
                segment=header.segment,
                name=name,
                size_bytes=writer.position,
                index_at=writer.index_at,
                crc32c=writer.crc32c,
                payload_bytes=ledger.length,
            )
            await self.verify(cold)
        except BaseException:
            await self._discard(name)
            raise
        self.metrics.segments_copied_total += 1
        self.metrics.copied_bytes_total += cold.size_bytes
        return cold

    async def _upload(self, name: str, writer: ObjectWriter, ledger: SegmentLedger) -> None:
        upload = await self.objects.create(name)
        try:
            await upload.write(writer.begin())
            async for entry in self._entries(ledger):
                if block := writer.add(entry):
                    await self._pace.wait_for(sum(map(len, block)))
                    await upload.write(block)
            await upload.write(writer.finish())
            await upload.finish()
        except BaseException:
            await upload.abort()
            raise

    async def _discard(self, name: str) -> None:
        """Delete an object that nobody will name. Errors: none; they are logged."""
        try:
            await self.objects.delete(name)
        except CoreError as error:
            logger.warning("cold_object_left name=%s error=%s", name, error)

    async def _entries(self, ledger: SegmentLedger) -> AsyncIterator[Entry]:
        """Yield a ledger's entries, read in runs of about one block."""
        last = ledger.last_confirmed
        average = ledger.length // (last + 1) + 1 if last >= 0 else 1
        count = max(1, min(_READ_ENTRIES_MAX, self.config.block_bytes // average))
        following = 0
        while following <= last:
            for entry in await ledger.read_some(following, min(last, following + count - 1)):
                following = entry.entry_id + 1
                yield entry
