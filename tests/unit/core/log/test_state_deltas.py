"""Where snapshots and deltas stand in a segment, and that its end finds them wherever it is cut."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.core.log import owner_records, state_deltas
from tailrace.core.log.entries import control_records, visible_records
from tailrace.core.log.owner import DeltaState, NoState
from tailrace.core.log.owner_records import pack_delta, pack_snapshot, read_delta, read_part
from tailrace.core.log.state_deltas import NO_CONTROLS, Control, StateDeltas, find_deltas
from tailrace.core.metadata.segment_metadata import SegmentMetadata
from tailrace.protocol.bookkeeper.entry import Entry
from tailrace.protocol.distributedlog.envelope import compress_envelope, pack_user_records
from tailrace.protocol.distributedlog.record import record_parts
from tailrace.protocol.errors import BadLength
from tailrace.protocol.ids import LedgerId


class Numbers(NoState):
    """A state of bytes: each entry adds one, or nothing."""

    keep_ms = 1

    def __init__(self) -> None:
        self.bytes = b"!"
        self.last = b""

    def snapshot(self) -> bytes:
        return self.bytes

    def add(self, delta: bytes) -> None:
        self.last = delta
        self.bytes += delta

    def delta(self) -> bytes:
        return self.last


def controls_of(entries: list[list[bytes]]) -> list[Control]:
    return [
        Control(entry_id, 0, memoryview(payload))
        for entry_id, payloads in enumerate(entries)
        for payload in payloads
    ]


@given(st.lists(st.tuples(st.binary(max_size=1), st.integers(0, 3000)), max_size=25))
@pytest.mark.parametrize("inside", [0, 10, 4096])
def test_the_end_is_found_wherever_a_segment_is_cut(
    inside: int, steps: list[tuple[bytes, int]]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner_records, "PART_BYTES_MAX", 5)
        patch.setattr(state_deltas, "PACE_BYTES", 5_000)
        patch.setattr(state_deltas, "PACE_RATIO", 1)
        patch.setattr(state_deltas, "INSIDE_BYTES_MAX", inside)
        state = Numbers()
        deltas = StateDeltas(state)
        entries, known = [[part] for part in pack_snapshot(state.bytes)], [state.bytes]
        for delta, size in steps:
            state.add(delta)
            controls = deltas.controls(size)
            entries.append([*controls.inside])
            entries += [[part] for part in controls.behind]
            known += [state.bytes] * (1 + len(controls.behind))
        for cut in range(1, len(entries) + 1):
            found = find_deltas(controls_of(entries[:cut]))
            assert found is not None
            assert found.snapshot + b"".join(each.body for each in found.deltas) == known[cut - 1]


def test_a_snapshot_comes_after_a_pace_and_not_before() -> None:
    state = Numbers()
    deltas = StateDeltas(state)
    per_entry = state_deltas.PACE_BYTES // 8 - state_deltas.ENTRY_COST_BYTES
    found = [deltas.controls(per_entry) for _ in range(24)]
    assert [at for at, each in enumerate(found) if each is not NO_CONTROLS] == [7, 15, 23]
    assert found[7].inside == pack_snapshot(b"!")


def test_a_large_snapshot_has_entries_of_its_own_and_comes_less_often() -> None:
    state = Numbers()
    state.bytes = b"!" * 1_000_000
    deltas = StateDeltas(state)
    found = [deltas.controls(state_deltas.PACE_BYTES) for _ in range(20)]
    assert [at for at, each in enumerate(found) if each is not NO_CONTROLS] == [0, 16]
    assert found[0].inside == []
    assert found[0].behind == pack_snapshot(state.bytes)


def test_an_entry_that_is_full_gets_no_snapshot_inside() -> None:
    deltas = StateDeltas(Numbers())
    assert deltas.controls(5 << 20) == ([], pack_snapshot(b"!"))


def test_without_a_whole_snapshot_more_is_to_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(owner_records, "PART_BYTES_MAX", 2)
    parts = pack_snapshot(b"abcdef")
    assert find_deltas([]) is None
    assert find_deltas(controls_of([[pack_delta(b"x")], [b"control"]])) is None
    assert find_deltas(controls_of([[parts[1]], [parts[2]], [pack_delta(b"x")]])) is None
    assert find_deltas(controls_of([[parts[0]], [parts[1]]])) is None
    with pytest.raises(BadLength):
        find_deltas(controls_of([[parts[0]], [b"control"], [parts[2]]]))


def test_deltas_are_told_from_other_control_records() -> None:
    assert pack_delta(b"abc") == b"TRD1abc"
    assert read_delta(b"TRD1abc") == b"abc"
    assert read_delta(b"TRS1abc") is read_delta(b"control") is read_delta(b"") is None
    assert read_part(b"TRD1abc") is None


def test_not_every_state_is_kept_in_deltas() -> None:
    assert not isinstance(NoState(), DeltaState)


@pytest.mark.parametrize("is_compressed", [True, False])
def test_control_records_behind_the_records_of_an_entry(*, is_compressed: bool) -> None:
    records = [record_parts(7, [b"x" * 50], 50), record_parts(8, [b"y"], 1)]
    parts, position = pack_user_records(records, 10, [b"one", b"two"])
    assert position == 12
    payload = b"".join(compress_envelope(parts) if is_compressed else parts)
    entry = Entry(LedgerId(3), 5, 4, len(payload), memoryview(payload))
    segment = SegmentMetadata(lssn=1, ledger_id=LedgerId(3), first_txid=0)
    controls = control_records(segment, entry)
    assert [(each.txid, each.position, bytes(each.payload)) for each in controls] == [
        (8, 12, b"one"),
        (8, 12, b"two"),
    ]
    found = visible_records(segment, entry)
    assert [(each.dlsn.slot, each.record.txid) for each in found.records()] == [(0, 7), (1, 8)]
    assert found.last_position == 12
    assert found.payload_bytes == 51
