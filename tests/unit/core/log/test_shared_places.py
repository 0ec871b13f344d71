"""What the readers of a log keep for each other, by where they are; compared with a plain list."""

import asyncio
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tailrace.core.log.entry_cache import EntryCache
from tailrace.core.log.shared_entries import Position, ReaderPlace, SharedEntries
from tailrace.protocol.bookkeeper.entry import Entry
from tailrace.protocol.ids import EntryId, LedgerId

LEDGER = LedgerId(7)
ENTRIES = 6
positions = st.tuples(st.just(1), st.integers(0, ENTRIES))


def entry(number: int) -> Entry:
    return Entry(LEDGER, EntryId(number), EntryId(number), 10 * (number + 1), memoryview(bytes(10)))


def kept(shared: SharedEntries) -> list[bool]:
    return [shared.find(LEDGER, EntryId(each)) is not None for each in range(ENTRIES)]


@given(data=st.data())
def test_an_entry_is_kept_while_a_reader_is_at_it_or_before_it(data: Any) -> None:
    async def story() -> None:
        shared = SharedEntries(EntryCache(1 << 20))
        places: list[ReaderPlace] = []
        for _ in range(data.draw(st.integers(1, 12))):
            at: Position = data.draw(positions)
            what = data.draw(st.sampled_from(["join", "move", "leave"] if places else ["join"]))
            if what == "join":
                places.append(shared.join(at))
            else:
                place = data.draw(st.sampled_from(places))
                if what == "move":
                    shared.move(place, at)
                else:
                    shared.leave(place)
                    places.remove(place)
                    shared.leave(place)
            for each in range(ENTRIES):
                shared.put(1, entry(each))
            assert kept(shared) == [
                any(place.at <= (1, each) for place in places) for each in range(ENTRIES)
            ]

    asyncio.run(story())
