"""How a state that is kept beside the records gets into a segment, and is found there again. Pure.

    entry 0: snapshot | records + delta | records | records + delta + snapshot | records + delta ...

A delta is in the entry of the records that it speaks of, behind them: both are in the log, or
neither is. A snapshot follows each time that what was written since the last one would take long to
read; a small one is in the entry too. So the state at the end of a segment is the last whole
snapshot with the deltas behind it, and what lies before that snapshot need not be read.

Invariant: a segment with deltas begins with a snapshot. Between two snapshots lie, to the entry, no
more than `SnapshotPace` says. Readers pass all of it over, Java's included.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from tailrace.core.log.config import ENTRY_RECORDS_BYTES_MAX
from tailrace.core.log.owner import DeltaState
from tailrace.core.log.owner_records import (
    SNAPSHOT_MAGIC,
    OwnerPart,
    join_snapshot,
    pack_delta,
    pack_snapshot,
    read_delta,
    read_part,
)
from tailrace.protocol.ids import EntryId, TxId

DELTA_BYTES_MAX: Final = 256 * 1024
"""The largest delta that a state may have for one entry: far below any bookie's largest entry."""

PACE_BYTES: Final = 1024 * 1024
"""Between two snapshots lie so many bytes, or more if the snapshot is large."""

PACE_RATIO: Final = 16
"""A snapshot is followed by so many times its own bytes before the next one."""

ENTRY_COST_BYTES: Final = 1024
"""An entry counts as so many bytes more than it has: reading 1,000 small ones takes long, too."""

INSIDE_BYTES_MAX: Final = 4096
"""A snapshot up to this size goes into the entry of the records before it, unless that is one
large record, which may need all the room."""


class SnapshotPace:
    """When the next snapshot of a segment is due."""

    __slots__ = ("_left",)

    def __init__(self) -> None:
        self._left = PACE_BYTES

    def is_due_after(self, size_bytes: int) -> bool:
        """Tell whether a snapshot is due behind another entry of this size."""
        self._left -= size_bytes + ENTRY_COST_BYTES
        return self._left <= 0

    def on_snapshot(self, size_bytes: int) -> None:
        """Take note of a snapshot of this size."""
        self._left = max(PACE_BYTES, PACE_RATIO * size_bytes)


class OwnerControls(NamedTuple):
    """Payloads of control records that go with an entry's records."""

    inside: Sequence[bytes]
    """Behind the records, in their entry."""
    behind: Sequence[bytes]
    """In entries of their own, right behind it."""


NO_CONTROLS: Final = OwnerControls((), ())


class StateDeltas:
    """What one segment's writer writes of a state."""

    __slots__ = ("_pace", "_state")

    def __init__(self, state: DeltaState) -> None:
        self._state = state
        self._pace = SnapshotPace()

    def controls(self, size_bytes: int) -> OwnerControls:
        """Return what goes with the entry of `size_bytes` that the state observed just now."""
        delta = self._state.delta()
        assert len(delta) <= DELTA_BYTES_MAX, len(delta)
        is_due = self._pace.is_due_after(size_bytes + len(delta))
        if not delta and not is_due:
            return NO_CONTROLS
        inside = [pack_delta(delta)] if delta else []
        if not is_due:
            return OwnerControls(inside, ())
        snapshot = self._state.snapshot()
        self._pace.on_snapshot(len(snapshot))
        parts = pack_snapshot(snapshot)
        if len(snapshot) <= INSIDE_BYTES_MAX and size_bytes <= ENTRY_RECORDS_BYTES_MAX:
            return OwnerControls([*inside, *parts], ())
        return OwnerControls(inside, parts)


class Control(NamedTuple):
    """A control record of a segment."""

    entry_id: EntryId
    txid: TxId
    payload: memoryview


class Delta(NamedTuple):
    """What an entry changed."""

    entry_id: EntryId
    txid: TxId
    body: memoryview


class FoundDeltas(NamedTuple):
    """The state at the end of a segment."""

    snapshot: bytes
    deltas: list[Delta]
    """What came behind the snapshot, in order."""


def find_deltas(controls: Sequence[Control]) -> FoundDeltas | None:
    """Return the state at the end of a segment by its last control records, in order.

    None: no whole snapshot is among them; more of the segment is to be read. A snapshot whose last
    parts a crash took away does not count. Errors: DecodeError family.
    """
    deltas: list[Delta] = []
    for at in range(len(controls) - 1, -1, -1):
        control = controls[at]
        body = read_delta(control.payload)
        if body is not None:
            deltas.append(Delta(control.entry_id, control.txid, body))
            continue
        part = read_part(control.payload)
        if part is None or part.magic != SNAPSHOT_MAGIC or part.number != part.total - 1:
            continue
        if part.number > at:
            return None  # its first parts lie further back
        parts = [read_part(each.payload) for each in controls[at - part.number : at]]
        whole: list[OwnerPart] = [*(each for each in parts if each is not None), part]
        return FoundDeltas(join_snapshot(whole), deltas[::-1])
    return None
