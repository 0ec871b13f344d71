from hypothesis import given
from hypothesis import strategies as st

from tailrace.bookie.index_format import IndexHeader
from tailrace.bookie.ledger_state import GAP_MAX, LedgerState, LocationTable, lac_of
from tailrace.protocol.ids import LedgerId

ids = st.one_of(st.integers(0, 40), st.integers(GAP_MAX, GAP_MAX + 40), st.integers(0, 5 * GAP_MAX))


@given(st.lists(st.tuples(ids, st.integers(1, 2**62))))
def test_table_is_a_dictionary(puts: list[tuple[int, int]]) -> None:
    table = LocationTable()
    assert not table
    oracle: dict[int, int] = {}
    for entry_id, location in puts:
        table.put(entry_id, location)
        oracle[entry_id] = location
    assert bool(table) == bool(oracle)
    assert sorted(table.entry_ids()) == sorted(oracle)
    runs = {f + i: loc for f, run in table.runs() for i, loc in enumerate(run)}
    assert runs == oracle
    for entry_id in range(50):
        assert table.get(entry_id) == oracle.get(entry_id, 0)


def packet(lac: int) -> bytes:
    return (1).to_bytes(8, "big") + lac.to_bytes(8, "big", signed=True) + b"digest"


def test_explicit_lac_rises_only() -> None:
    state = LedgerState(LedgerId(1), IndexHeader(b"key", explicit_lac=packet(4)))
    assert state.lac == 4
    assert not state.take_explicit_lac(packet(3))
    assert state.take_explicit_lac(packet(4))
    assert state.take_explicit_lac(packet(6))
    assert (state.lac, state.explicit_lac_id) == (6, 6)
    assert state.header() == IndexHeader(b"key", explicit_lac=packet(6))
    assert lac_of(b"") == -1
    assert lac_of(packet(-1)) == -1


def test_nothing_unsaved_may_be_dropped() -> None:
    state = LedgerState(LedgerId(1), IndexHeader(b"key"))
    assert state.is_clean()
    state.pending = 1
    assert not state.is_clean()
    state.pending = 0
    state.unsaved.put(0, 5)
    assert not state.is_clean()
    state.saving, state.unsaved = state.unsaved, LocationTable()
    assert not state.is_clean()
    assert state.locate(0) == 5
    state.unsaved.put(0, 6)
    assert state.locate(0) == 6
    state.saving = None
    state.unsaved = LocationTable()
    assert state.is_clean()
    state.fenced = True
    assert not state.is_clean()
    state.fence_durable = True
    assert state.is_clean()
    state.header_unsaved = True
    assert not state.is_clean()
