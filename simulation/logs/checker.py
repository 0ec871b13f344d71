"""What must hold of a log, heard from outside: from its owners, its readers and its metadata.

Owners write the txids 0, 1, 2, ..., each from where it found the log. So a log is dense, and every
record says who wrote it. What was confirmed, or what any reader was given, is there for ever, at
one position and with the same bytes; records of an owner that lost the log never follow those of
its successor.
"""

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from tailrace.core.errors import CoreError
from tailrace.core.log.entries import LogRecordWithDLSN
from tailrace.core.log.segments import min_active
from tailrace.core.metadata.layout import LogPaths
from tailrace.core.metadata.segment_metadata import (
    SegmentMetadata,
    decode_segment,
    read_segment_name,
)
from tailrace.core.metadata.store import Node
from tailrace.protocol.distributedlog.dlsn import DLSN
from tailrace.protocol.distributedlog.record import LogRecord, RecordParts
from tailrace.protocol.ids import EntryId, LedgerId, TxId
from tailrace.simulation.world import World

IsHidden: TypeAlias = Callable[[LedgerId, EntryId], bool]
"""Whether somebody could not read an entry, though he tried twice."""

NOTHING = -1
"""Txid before the first one."""


@dataclass(slots=True, eq=False)
class Owner:
    """One opening of a log for writing: its listener and its state."""

    model: "LogModel"
    name: str
    began_s: float
    floor: TxId
    """What must be there when it has opened: confirmed, or read by somebody, before it began."""
    opened_s: float | None = None
    first: TxId = 0
    appended: list[bytes] = field(default_factory=list)
    confirmed: int = 0
    error: CoreError | None = None
    state: "OwnerState" = field(init=False)

    def __post_init__(self) -> None:
        self.state = OwnerState(self)

    def on_opened(self, last_txid: TxId) -> None:
        model = self.model
        self.opened_s = model.now_s()
        self.first = max(last_txid, NOTHING) + 1
        model.expect(
            self.first > self.floor, f"{self.name} found txid {last_txid}, {self.floor} was safe"
        )
        model.expect(
            self.state.txid == self.first - 1,
            f"{self.name} found txid {last_txid} and a state at {self.state.txid}",
        )

    def is_before(self, other: "Owner") -> bool:
        """Whether this one had the log before the other began to take it over."""
        return self.opened_s is not None and self.opened_s < other.began_s

    def next_record(self, size: int) -> tuple[TxId, bytes]:
        """Return what to append; `appended` says that it was."""
        txid = self.first + len(self.appended)
        head = b"%s:%d:" % (self.name.encode(), txid)
        return txid, (head * (size // len(head) + 1))[: max(size, len(head))]

    def on_appended(self, txid: TxId, payload: bytes) -> None:
        self.appended.append(payload)
        self.model.attempts.setdefault(txid, set()).add(payload)

    # LogListener

    def on_confirmed(self, txid: TxId) -> None:
        model = self.model
        model.expect(self.error is None, f"{self.name}: {txid} confirmed after {self.error!r}")
        model.expect(
            txid < self.first + len(self.appended), f"{self.name}: {txid} confirmed, not appended"
        )
        for at in range(self.confirmed, txid - self.first + 1):
            model.on_confirmed(self, self.first + at, self.appended[at])
            self.confirmed = at + 1

    def on_failed(self, error: CoreError) -> None:
        self.model.expect(self.error is None, f"{self.name} failed twice: {error!r}")
        self.error = error


class OwnerState:
    """What an owner keeps in the log: the last txid, and a hash of all records up to it."""

    def __init__(self, owner: Owner) -> None:
        self._owner = owner
        self.txid: TxId = NOTHING
        self.hash = 0
        self._first: TxId = NOTHING

    def snapshot(self) -> bytes:
        return b"" if self.txid == NOTHING else b"%d %d" % (self.txid, self.hash)

    def begin_segment(self, lssn: int, ledger_id: LedgerId) -> None:
        self._first = self.txid + 1

    def observe(self, lssn: int, entry_id: int, records: Sequence[RecordParts]) -> None:
        for txid, parts, _, _ in records:
            self._add(txid, b"".join(parts))

    def index(self) -> bytes:
        return b"%d %d" % (self._first, self.txid)

    def restore(self, snapshot: bytes | None) -> None:
        self.txid, self.hash = NOTHING, 0
        if snapshot:
            self.txid, self.hash = map(int, snapshot.split())
            self._owner.model.expect(
                (self.txid, self.hash) in self._owner.model.states,
                f"{self._owner.name} found a state at {self.txid} that nobody ever had",
            )

    def replay(self, dlsn: DLSN, record: LogRecord) -> None:
        payload = bytes(record.payload)
        self._owner.model.on_record(self._owner.name, dlsn, record.txid, payload)
        self._add(record.txid, payload)

    def _add(self, txid: TxId, payload: bytes) -> None:
        owner = self._owner
        owner.model.expect(
            txid == self.txid + 1, f"{owner.name}: its state got {txid} after {self.txid}"
        )
        self.txid = txid
        self.hash = zlib.crc32(payload, self.hash)
        owner.model.states.add((self.txid, self.hash))


@dataclass(slots=True)
class Reading:
    """What one reader was given."""

    model: "LogModel"
    name: str
    start: DLSN
    last: LogRecordWithDLSN | None = None
    records: int = 0

    def on_records(self, found: Sequence[LogRecordWithDLSN]) -> None:
        for each in found:
            self._on_record(each)
            self.last = each
            self.records += 1

    def _on_record(self, found: LogRecordWithDLSN) -> None:
        model, (dlsn, record), last = self.model, found, self.last
        model.expect(not record.is_control, f"{self.name} was given a control record at {dlsn}")
        model.on_record(self.name, dlsn, record.txid, bytes(record.payload))
        if last is None:
            is_before = record.txid < model.first_kept_max or record.txid == 0
            model.expect(
                dlsn >= self.start and (is_before or self.start in model.starts),
                f"{self.name} from {self.start} begins at {record.txid} {dlsn}",
            )
            return
        model.expect(
            dlsn > last.dlsn and record.txid == last.record.txid + 1,
            f"{self.name} went from {last.record.txid} {last.dlsn} to {record.txid} {dlsn}",
        )
        position = last.record.position + 1 if dlsn.lssn == last.dlsn.lssn else 1
        model.expect(
            record.position == position,
            f"{self.name}: {dlsn} has position {record.position}, not {position}",
        )


class LogModel:
    """One log as everybody outside knows it."""

    def __init__(self, world: World, name: str, paths: LogPaths) -> None:
        self.name = name
        self.paths = paths
        self.now_s = world.loop.time
        self.attempts: dict[TxId, set[bytes]] = {}
        self.confirmed: dict[TxId, bytes] = {}
        self.places: dict[TxId, tuple[DLSN, bytes]] = {}
        """Where readers and new owners saw a record, and what it was."""
        self.states: set[tuple[TxId, int]] = set()
        self.owners: list[Owner] = []
        self.starts: set[DLSN] = set()
        """Positions of records that readers are sent to, beside the beginning."""
        self.first_kept_max = 1
        """The log may begin at any txid below."""
        self.safe: TxId = NOTHING
        """Highest txid that is known to last."""
        self.records_checked = 0
        self.completed = 0
        """Segments."""
        self._world = world
        self._max_txid = 0
        self._segments: dict[int, SegmentMetadata] = {}
        world.metadata.observers.append(self._on_node)

    def expect(self, holds: bool, what: str) -> None:
        self._world.checker.expect(holds, f"log {self.name}: {what}")

    # Owners

    def new_owner(self, name: str) -> Owner:
        owner = Owner(self, f"{name}.{len(self.owners)}", self.now_s(), self.safe)
        self.owners.append(owner)
        return owner

    def on_confirmed(self, owner: Owner, txid: TxId, payload: bytes) -> None:
        known = self.confirmed.setdefault(txid, payload)
        self.expect(known == payload, f"txid {txid} was confirmed to two owners, now {owner.name}")
        place = self.places.get(txid)
        self.expect(
            place is None or place[1] == payload,
            f"txid {txid} was confirmed to {owner.name}, at its place is {place}",
        )
        for other in self.owners:
            if other.confirmed and owner.is_before(other):
                self.expect(
                    txid < other.first,
                    f"txid {txid} was confirmed to {owner.name} after {other.name} had taken over"
                    f" at {other.first}",
                )
        self.safe = max(self.safe, txid)

    def on_truncate(self, txid: TxId) -> None:
        """Somebody begins to give up what is before `txid`."""
        self.first_kept_max = max(self.first_kept_max, txid + 1)

    # Readers

    def new_reading(self, name: str, start: DLSN) -> Reading:
        return Reading(self, name, start)

    def on_record(self, reader: str, dlsn: DLSN, txid: TxId, payload: bytes) -> None:
        self.records_checked += 1
        self.expect(
            payload in self.attempts.get(txid, ()), f"{reader} got {txid}, which nobody wrote"
        )
        known = self.places.setdefault(txid, (dlsn, payload))
        self.expect(
            known == (dlsn, payload), f"{reader} got {txid} at {dlsn}, it was {known[1][:30]!r} at"
            f" {known[0]}"
        )  # fmt: skip
        self.expect(
            self.confirmed.get(txid, payload) == payload,
            f"{reader} got {payload[:30]!r} for {txid}, confirmed was another",
        )
        self.safe = max(self.safe, txid)

    def on_found(self, txid: TxId, place: DLSN, is_hidden: IsHidden) -> None:
        """Somebody searched a record whose place is known, and was told of a place."""
        known = self.places[txid][0]
        self.expect(
            place == known
            or txid < self.first_kept_max
            or (place < known and self._may_hold(txid, place, is_hidden)),
            f"txid {txid} was found at {place}, it is at {known}",
        )

    def _may_hold(self, txid: TxId, place: DLSN, is_hidden: IsHidden) -> bool:
        """Whether a search cannot know better than that a record may be at an earlier place.

        That is the beginning of an entry that it cannot read, and it can read no record from there
        on to what it searches; nor both neighbours of what it cannot read, whose positions would
        tell that no record is missing there.
        """

        def hides(dlsn: DLSN) -> bool:
            return is_hidden(self._segments[dlsn.lssn].ledger_id, dlsn.entry_id)

        known = self.places[txid][0]
        is_beginning = place.slot == 0 or place == min_active(self._segments[place.lssn])
        between = [dlsn for dlsn, _ in self.places.values() if place <= dlsn < known]
        before = self.places.get(txid - 1)
        is_next = before is not None and before[0] < place and before[0].lssn == known.lssn
        return (
            is_beginning
            and hides(place)
            and all(map(hides, between))
            and (before is None or not is_next or hides(before[0]) or hides(known))
        )

    # Metadata

    def _on_node(self, path: str, node: Node | None) -> None:
        if path == self.paths.max_txid and node is not None:
            value = int(node.data)
            self.expect(value >= self._max_txid, f"maxtxid went {self._max_txid} -> {value}")
            self._max_txid = value
        if path.rpartition("/")[0] == self.paths.segments:
            self._check_list()
            if node is not None:
                self._on_segment(decode_segment(node.data))

    def _check_list(self) -> None:
        names = self._world.metadata.tree.children(self.paths.segments)
        said = [read_segment_name(name) for name in names]
        lssns = sorted(each.lssn for each in said if each is not None)
        self.expect(
            not lssns or lssns == list(range(lssns[0], lssns[0] + len(names))),
            f"segments {names}",
        )

    def _on_segment(self, segment: SegmentMetadata) -> None:
        known = self._segments.get(segment.lssn)
        self._segments[segment.lssn] = segment
        name = f"segment {segment.lssn}"
        ledger = self._world.checker.ledgers[segment.ledger_id]
        if segment.in_progress:
            allocated = self._world.metadata.tree.get(self.paths.allocation).data
            self.expect(
                allocated != b"%d" % segment.ledger_id, f"{name} began with a ledger still to give"
            )
            self.expect(not ledger.metadata.is_closed, f"{name} began with a closed ledger")
            return
        self.expect(
            ledger.deleted or ledger.metadata.is_closed, f"{name} completed, its ledger is open"
        )
        if known is None or known.ledger_id != segment.ledger_id:
            self.expect(holds=False, what=f"{name} was completed and never begun")
        elif known.in_progress:
            self.completed += 1
        else:
            self.expect(
                segment.truncation >= known.truncation
                and min_active(segment) >= min_active(known)
                and segment.record_count == known.record_count,
                f"{name} went from {known} to {segment}",
            )

    def check_segments(self, segments: Sequence[SegmentMetadata], found: Reading) -> None:
        """Hold the list of a log that rests against its records."""
        counts: dict[int, int] = {}
        for dlsn, _ in self.places.values():
            counts[dlsn.lssn] = counts.get(dlsn.lssn, 0) + 1
        sequence: int | None = None
        for segment in segments:
            name = f"segment {segment.lssn}"
            self.expect(not segment.in_progress, f"{name} is still in progress")
            if sequence is not None:
                self.expect(
                    segment.start_sequence_id == sequence,
                    f"{name} begins with record {segment.start_sequence_id}, not {sequence}",
                )
            sequence = segment.start_sequence_id + segment.record_count
            self.expect(
                counts.get(segment.lssn, 0) <= segment.record_count,
                f"{name} counts {segment.record_count} records of {counts.get(segment.lssn)}",
            )
            self.expect(
                not self._world.checker.ledgers[segment.ledger_id].deleted, f"{name} has no ledger"
            )
        if sequence is not None and found.last is not None:
            self.expect(
                sequence == found.last.record.txid + 1,
                f"{sequence} records are counted, {found.last.record.txid + 1} were written",
            )

    def check_owners(self) -> None:
        """Check that an owner's records are together, and owners in the order of their records."""
        owner, done = b"", set()
        for txid in sorted(self.places):
            name = self.places[txid][1].partition(b":")[0]
            if name != owner:
                self.expect(name not in done, f"{name!r} has {txid} behind another owner's")
                done.add(owner)
                owner = name
