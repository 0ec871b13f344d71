from hypothesis import given
from hypothesis import strategies as st

from tailrace.core.errors import BookieUnavailable, CoreError, CorruptData, EntryNotFound
from tailrace.core.ledger.read_decisions import EntryRead, Speculation
from tailrace.protocol.ids import BookieId

BOOKIES = tuple(BookieId(f"b{i}") for i in range(5))


def test_pauses_grow_to_their_bound() -> None:
    pauses = Speculation(2.0, 9.0, 2.0)
    assert [pauses.pause_s(asked) for asked in (1, 2, 3, 4, 500)] == [2, 4, 8, 9, 9]
    assert [Speculation(6.0, 5.0, 2.0).pause_s(asked) for asked in (1, 2)] == [6, 6]


class Oracle:
    """One entry, told by keeping everything that happened."""

    def __init__(self, order: tuple[BookieId, ...]) -> None:
        self.order = order
        self.asked = [order[0]]
        self.answered: list[BookieId] = []
        self.errors: list[CoreError] = []

    def silent(self) -> list[BookieId]:
        return [b for b in self.asked if b not in self.answered]

    def ask(self) -> BookieId | None:
        rest = [b for b in self.order if b not in self.asked]
        self.asked += rest[:1]
        return rest[0] if rest else None

    def fail(self, bookie: BookieId, error: CoreError) -> BookieId | None:
        self.answered.append(bookie)
        self.errors.append(error)
        return None if self.silent() else self.ask()

    def time_out(self, heard: set[BookieId]) -> BookieId | None:
        return None if heard & set(self.silent()) else self.ask()

    def error(self) -> CoreError:
        """The first of the kind that says most."""
        for kinds in ((CorruptData,), (BookieUnavailable,), (EntryNotFound,)):
            for error in self.errors:
                if isinstance(error, kinds):
                    return error
        raise AssertionError("nothing failed")


@given(st.integers(1, 5), st.data())
def test_against_remembering_everything(replicas: int, data: st.DataObject) -> None:
    order = BOOKIES[:replicas]
    oracle, read = Oracle(order), EntryRead(order, 1)
    while oracle.silent():
        if data.draw(st.booleans()):
            heard = data.draw(st.sets(st.sampled_from(BOOKIES), max_size=2))
            assert read.on_silence(heard) == oracle.time_out(heard)
        bookie = data.draw(st.sampled_from(oracle.silent()))
        if data.draw(st.booleans()):
            error = data.draw(st.sampled_from([CorruptData, BookieUnavailable, EntryNotFound]))()
            assert read.on_failure(bookie, error) == oracle.fail(bookie, error)
            assert read.error is oracle.error()
        else:
            before = oracle.order[: oracle.order.index(bookie)]
            assert read.outrun_by(bookie) == tuple(b for b in before if b in oracle.silent())
            return
        assert read.asked == tuple(oracle.asked)
        assert read.is_lost == (not oracle.silent())
    assert set(oracle.asked) == set(order), "given up before everybody was asked"


def test_all_at_once() -> None:
    read = EntryRead(BOOKIES[:3], 3)
    error = EntryNotFound("x")
    assert [read.on_failure(b, error) for b in BOOKIES[:3]] == [None] * 3
    assert read.is_lost
