"""Records that Java's side and ours make alike, and what both say of a record that they read.

Record t of seed s is SHA-256("s/t") over and over, cut to its size; t is its txid.
"""

import hashlib
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from tailrace.core.log.entries import LogRecordWithDLSN
from tailrace.protocol.distributedlog.dlsn import DLSN

SIZE: Final = 120


class Seen(NamedTuple):
    """A record as a reader of either side gives it out."""

    dlsn: DLSN
    txid: int
    position: int
    size: int
    digest: str

    @staticmethod
    def by_java(shown: Sequence[Any]) -> "Seen":
        """Take what tests/java/distributedlog/LogPeer.java shows."""
        lssn, entry_id, slot, txid, position, _sequence_id, size, digest = shown
        return Seen(DLSN(lssn, entry_id, slot), txid, position, size, digest)

    @staticmethod
    def by_us(found: LogRecordWithDLSN) -> "Seen":
        """Take what our reader gives."""
        record = found.record
        digest = hashlib.sha256(record.payload).hexdigest()
        return Seen(found.dlsn, record.txid, record.position, len(record.payload), digest)


def payload(name: str, size: int = SIZE) -> bytes:
    """Return the bytes of the record of this name: "seed/txid", in a set "seed/txid/number"."""
    unit = hashlib.sha256(name.encode()).digest()
    return (unit * (size // len(unit) + 1))[:size]


def digest(name: str, size: int = SIZE) -> str:
    """Return what a reader of the record shows of it."""
    return hashlib.sha256(payload(name, size)).hexdigest()


def check(seen: Sequence[Seen], seed: int, txids: Sequence[int], size: int = SIZE) -> None:
    """Check that these records were read, each once, in order, and counted without a gap."""
    assert [record.txid for record in seen] == list(txids)
    assert [record.digest for record in seen] == [digest(f"{seed}/{txid}", size) for txid in txids]
    check_positions(seen)


def check_positions(seen: Sequence[Seen]) -> None:
    """Check that DLSNs rise, and that positions count from 1 in each segment, without a gap."""
    assert [record.dlsn for record in seen] == sorted({record.dlsn for record in seen})
    for lssn in {record.dlsn.lssn for record in seen}:
        positions = [record.position for record in seen if record.dlsn.lssn == lssn]
        assert positions == list(range(1, len(positions) + 1)), f"segment {lssn}"
