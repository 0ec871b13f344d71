"""Logs as another library may have left them: any records, any first txids, empty segments."""

from collections.abc import Sequence
from dataclasses import dataclass

from tailrace.core.ledger.config import LedgerConfig
from tailrace.core.log.log import Log
from tailrace.core.metadata.layout import LogPaths
from tailrace.core.metadata.segment_metadata import (
    INVALID_TXID,
    SegmentMetadata,
    encode_segment,
    segment_name,
)
from tailrace.protocol.distributedlog.envelope import pack_envelope
from tailrace.protocol.distributedlog.record import LogRecord, control_record
from tests.unit.core.ledger.world import Listener as LedgerListener
from tests.unit.core.log.world import World, settle


@dataclass
class ForgedSegment:
    """Entries of txids, each a record; an entry without any is a control record."""

    entries: Sequence[Sequence[int]]
    in_progress: bool = False


async def forge(world: World, name: str, segments: Sequence[ForgedSegment]) -> Log:
    """Make the log. First txids are Java's: the last one of the segment before, after a roll."""
    namespace = world.namespace()
    await namespace.create_log(name)
    paths = LogPaths("/distributedlog/tailrace", name)
    ledgers = world.ledgers()
    last_txid = INVALID_TXID
    for lssn, segment in enumerate(segments, 1):
        txids = [txid for entry in segment.entries for txid in entry]
        first_txid = last_txid if last_txid != INVALID_TXID else (txids or [0])[0]
        writer = await ledgers.create_ledger(LedgerConfig(), LedgerListener())
        position = 0
        last_entry_id = -1
        control = max(first_txid, 0)
        for entry in [*segment.entries, ()] if segment.in_progress else segment.entries:
            records = []
            for txid in entry:
                position += 1
                records.append(LogRecord(txid, b"r%d" % txid, 0, position))
                control = txid
            last_entry_id = writer.add(
                pack_envelope(records or [control_record(control, position)])
            )
            while writer.lac < last_entry_id:  # the next entry tells that this one is confirmed
                await settle(1)
        metadata = SegmentMetadata(
            lssn=lssn, ledger_id=writer.ledger_id, first_txid=first_txid, in_progress=True
        )
        if segment.in_progress:
            writer.abort()
        else:
            await writer.close()
            metadata = SegmentMetadata(
                lssn=lssn,
                ledger_id=writer.ledger_id,
                first_txid=first_txid,
                in_progress=False,
                last_txid=txids[-1] if txids else INVALID_TXID,
                record_count=len(txids),
                last_entry_id=last_entry_id,
                last_slot=0,
                start_sequence_id=0,
            )
        await world.store.create(paths.segment(segment_name(metadata)), encode_segment(metadata))
        last_txid = txids[-1] if txids else last_txid
    await world.store.set(paths.segments, b"%d" % len(segments))
    return await namespace.open_log(name)
