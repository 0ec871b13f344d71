"""Lines are written in order by a thread; what has no room, or fails, is counted and told."""

import asyncio
import os
import threading
from pathlib import Path

import pytest

from tailrace.core.runtime.line_writer import AT_ONCE, WAITING_MAX, LineWriter
from tests.unit.broker.loops import in_loop


def writer(path: Path | None, gate: threading.Event | None = None) -> LineWriter[str]:
    def line_of(text: str) -> str:
        if gate is not None:
            gate.wait(10)
        return text

    return LineWriter("lines", path, line_of, lambda count: f"dropped {count}")


@in_loop
async def test_lines_are_there_in_order_once_it_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "log"
    lines = writer(path)
    lines.check()
    assert path.stat().st_mode & 0o777 == 0o600
    wanted = [str(number) for number in range(AT_ONCE * 3 + 1)]
    for each in wanted:
        lines.put(each)
    await lines.close(10)
    assert path.read_text().splitlines() == wanted
    assert (lines.metrics.written_total, lines.metrics.waiting) == (len(wanted), 0)


@in_loop
async def test_while_the_disk_is_slow_nobody_waits_and_what_has_no_room_is_told(
    tmp_path: Path,
) -> None:
    gate, path = threading.Event(), tmp_path / "log"
    lines = writer(path, gate)
    for number in range(1 + WAITING_MAX + 7):
        lines.put(str(number))
    assert lines.metrics.dropped_total == 7
    gate.set()
    await lines.close(10)
    found = path.read_text().splitlines()
    assert found[:2] == ["0", "dropped 7"]
    assert len(found) == 1 + WAITING_MAX + 1
    assert lines.metrics.written_total == 1 + WAITING_MAX


@in_loop
async def test_a_file_that_was_moved_away_is_made_again(tmp_path: Path) -> None:
    path = tmp_path / "log"
    for name in ("first", "second"):
        lines = writer(path)
        lines.put(name)
        await lines.close(10)
        path.rename(tmp_path / name)
    assert [(tmp_path / name).read_text() for name in ("first", "second")] == [
        "first\n",
        "second\n",
    ]


@in_loop
async def test_what_cannot_be_written_is_counted_and_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "gone" / "log"
    lines = writer(path)
    with pytest.raises(FileNotFoundError):
        lines.check()
    for number in range(AT_ONCE * 2):
        lines.put(str(number))
    while lines.metrics.dropped_total < AT_ONCE * 2:  # noqa: ASYNC110 - told by nothing else
        await asyncio.sleep(0.001)
    assert [each.msg for each in caplog.records].count("lines_not_written name=%s error=%r") == 1
    path.parent.mkdir()
    lines.put("back")
    await lines.close(10)
    assert path.read_text().splitlines() == [f"dropped {AT_ONCE * 2}", "back"]


@in_loop
async def test_a_bug_in_a_line_costs_the_others_nothing(tmp_path: Path) -> None:
    def line_of(text: str) -> str:
        return f"{1 / len(text)}"

    lines = LineWriter("lines", tmp_path / "log", line_of, lambda count: "x" * count)
    lines.put("")
    while not lines.metrics.dropped_total:  # noqa: ASYNC110 - told by nothing else
        await asyncio.sleep(0.001)
    lines.put("xx")
    await lines.close(10)
    assert (tmp_path / "log").read_text().splitlines() == ["1.0", "0.5"]


@in_loop
async def test_a_slow_disk_does_not_hold_the_end(tmp_path: Path) -> None:
    gate = threading.Event()
    lines = writer(tmp_path / "log", gate)
    lines.put("late")
    await lines.close(0.01)
    gate.set()


def test_a_line_that_is_written_behind_the_end_of_its_loop_is_no_failure(tmp_path: Path) -> None:
    gate, left = threading.Event(), []

    async def story() -> None:
        lines = writer(tmp_path / "log", gate)
        lines.put("late")
        left.extend(each for each in threading.enumerate() if each.name == "lines")
        await lines.close(0.01)

    asyncio.run(story())
    gate.set()
    (thread,) = left
    thread.join(10)  # what it raises fails the test
    assert (tmp_path / "log").read_text() == "late\n"


@in_loop
async def test_stderr_may_have_the_lines(capfd: pytest.CaptureFixture[str]) -> None:
    lines = writer(None)
    lines.put("to stderr")
    await lines.close(10)
    assert capfd.readouterr().err == "to stderr\n"
    os.fstat(2)  # it is still open
