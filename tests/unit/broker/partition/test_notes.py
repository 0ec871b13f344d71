"""What is kept beside a log: both versions, and what is none."""

import asyncio
from pathlib import Path

import pytest

from tailrace.broker.partition.notes import CleanNotes, LogNotes, read_notes
from tailrace.core.errors import CorruptData
from tests.unit.broker.fakes import FakeLog
from tests.unit.broker.loops import in_loop
from tests.unit.broker.partition.test_cleaning_real_log import Process
from tests.unit.core.log.world import World, run_world

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


def test_two_who_note_at_the_same_time_both_have_it_noted(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await world.namespace().create_log("t-0")
        log = await Process(world).open("t")
        async with asyncio.TaskGroup() as group:  # the end of a pass, and DeleteRecords
            group.create_task(log.note(cleaned=CLEANED))
            group.create_task(log.note(log_start_offset=7))
        for notes in (log.notes, await read_notes(log.log)):
            assert (notes.log_start_offset, notes.cleaned) == (7, CLEANED)
        await log.close()

    run_world(tmp_path, story)
