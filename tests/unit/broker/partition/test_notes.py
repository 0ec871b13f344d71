"""What is kept beside a log: both versions, and what is none."""

import pytest

from broker.partition.notes import CleanNotes, LogNotes, read_notes
from core.errors import CorruptData
from tests.unit.broker.fakes import FakeLog
from tests.unit.broker.loops import in_loop

CLEANED = CleanNotes(5, 1000, 300, 20)


async def read(data: bytes) -> LogNotes:
    log = FakeLog("t-0")
    log.data = data
    return await read_notes(log)  # type: ignore[arg-type]


@in_loop
async def test_what_is_written_is_read() -> None:
    for notes in (LogNotes(7), LogNotes(7, CLEANED), LogNotes(0, CLEANED)):
        again = await read(notes.encode())
        assert (again.log_start_offset, again.cleaned) == (notes.log_start_offset, notes.cleaned)
    assert await read(b"") == LogNotes()


@in_loop
async def test_a_log_that_was_never_cleaned_is_written_as_before() -> None:
    assert LogNotes(7).encode() == b'{"log_start_offset":7,"version":1}'
    assert (await read(b'{"version":1,"log_start_offset":7}')).log_start_offset == 7


@pytest.mark.parametrize("bad", [b"{", b'"\xff"', b'{"version":3}', b'{"other":1}'])
@in_loop
async def test_what_is_no_note_is_told(bad: bytes) -> None:
    with pytest.raises(CorruptData, match="notes of log t-0"):
        await read(bad)
