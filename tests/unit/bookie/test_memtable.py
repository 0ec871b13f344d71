from hypothesis import given
from hypothesis import strategies as st

from tailrace.bookie.memtable import OVERHEAD_BYTES, Memtable
from tailrace.protocol.ids import LedgerId

adds = st.lists(
    st.tuples(
        st.integers(0, 4).map(LedgerId),
        st.integers(0, 2**31 - 1),
        st.binary(min_size=1, max_size=9),
    ),
    max_size=40,
)


@given(adds, st.integers(0, 4).map(LedgerId))
def test_a_memtable_is_a_sorted_dictionary(
    puts: list[tuple[LedgerId, int, bytes]], forgotten: LedgerId
) -> None:
    table = Memtable()
    known: dict[tuple[LedgerId, int], bytes] = {}
    assert not table
    for ledger_id, entry_id, body in puts:
        table.put(ledger_id, entry_id, body)
        known[ledger_id, entry_id] = body
    assert bool(table) == bool(known)
    assert table.size == sum(len(body) + OVERHEAD_BYTES for _, _, body in puts)
    table.forget(forgotten)
    kept = {key: body for key, body in known.items() if key[0] != forgotten}
    assert [((e[0], e[1]), e[2]) for e in table.entries()] == sorted(kept.items())
    for ledger_id, entry_id, _ in puts:
        assert table.get(ledger_id, entry_id) == kept.get((ledger_id, entry_id))
    for number in range(6):
        ids = {entry_id for ledger_id, entry_id in kept if ledger_id == number}
        assert set(table.entry_ids(LedgerId(number))) == ids
