"""BookKeeper's rules for closing a group, over a thread that is held."""

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from tailrace.bookie.config import BookieConfig
from tailrace.bookie.group_wait import GroupRules, GroupThread, Item
from tailrace.protocol.bookkeeper.messages import StatusCode
from tests.unit.bookie.world import L1, L2, add, ask, open_small, read, run


def item(number: int, size: int = 100) -> Item:
    return (size, (), None, number, 0, lambda: None)


def record(number: int, size: int) -> Item:
    return (0, (bytes(size),), None, number, 0, lambda: None)


class Commits:
    """Groups that were committed; each commit waits while `gate` is shut."""

    def __init__(self) -> None:
        self.groups: list[list[int]] = []
        self.gate = threading.Event()
        self.gate.set()
        self._loop = asyncio.get_running_loop()
        self._came: asyncio.Future[Any] = self._loop.create_future()

    def commit(self, items: list[Item]) -> None:
        assert self.gate.wait(20)
        numbers = [one[3] for one in items]
        self._loop.call_soon_threadsafe(self._note, numbers)

    def _note(self, numbers: list[int]) -> None:
        self.groups.append(numbers)
        if not self._came.done():
            self._came.set_result(None)

    async def until(self, count: int) -> None:
        while sum(map(len, self.groups)) < count:
            await self._came
            self._came = self._loop.create_future()


def fail(error: Exception) -> None:
    raise AssertionError from error


def new_thread(commits: Commits, **rules: int) -> GroupThread:
    rules = {"wait_ms": 60_000, "bytes_max": 10_000, "entries_max": 0} | rules
    thread = GroupThread("group-test", GroupRules(**rules), commits.commit, fail)
    thread.start()
    return thread


async def end(thread: GroupThread) -> None:
    thread.stop()
    await asyncio.get_running_loop().run_in_executor(None, thread.join)


def test_the_entries_threshold_closes_a_group() -> None:
    async def story() -> None:
        commits = Commits()
        thread = new_thread(commits, entries_max=3)
        for number in range(9):
            thread.put(item(number))
        await commits.until(8)
        assert [n for group in commits.groups for n in group] == list(range(8))
        assert all(len(group) % 4 == 0 for group in commits.groups)
        await end(thread)
        await commits.until(9)  # the end closes what waits
        assert commits.groups[-1] == [8]

    run(story)


def test_the_bytes_threshold_closes_a_group() -> None:
    async def story() -> None:
        commits = Commits()
        thread = new_thread(commits, bytes_max=1000)
        for number in range(4):
            thread.put(item(number, 400))
        await commits.until(3)
        assert commits.groups == [[0, 1, 2]]
        await end(thread)

    run(story)


def test_time_closes_a_group() -> None:
    async def story() -> None:
        commits = Commits()
        thread = new_thread(commits, wait_ms=20)
        thread.put(item(0))
        thread.put(item(1))
        await commits.until(2)
        assert commits.groups == [[0, 1]]
        await end(thread)

    run(story)


def test_without_a_wait_a_group_is_what_came_meanwhile() -> None:
    async def story() -> None:
        commits = Commits()
        thread = new_thread(commits, wait_ms=0)
        commits.gate.clear()
        thread.put(item(0))
        for number in range(1, 6):
            thread.put(item(number))
        commits.gate.set()
        await commits.until(6)
        assert [n for group in commits.groups for n in group] == list(range(6))
        assert len(commits.groups) <= 2
        await end(thread)

    run(story)


@pytest.mark.parametrize("wait_ms", [0, 60_000])
def test_journal_records_count_as_bytes(wait_ms: int) -> None:
    """A group longer than GROUP_BYTES_MAX could not be read back, and fences with it."""

    async def story() -> None:
        commits = Commits()
        thread = new_thread(commits, wait_ms=wait_ms, bytes_max=1000)
        commits.gate.clear()
        for number in range(40):
            thread.put(record(number, 400))
        commits.gate.set()
        await end(thread)
        await commits.until(40)
        assert [n for group in commits.groups for n in group] == list(range(40))
        assert max(map(len, commits.groups)) <= 6  # twice the bytes, and one more

    run(story)


def test_a_failure_ends_the_thread_and_is_told_once() -> None:
    async def story() -> None:
        failed: asyncio.Future[Exception] = asyncio.get_running_loop().create_future()

        def refuse(items: list[Item]) -> None:
            raise OSError(len(items))

        rules = GroupRules(wait_ms=1, bytes_max=1000, entries_max=0)
        thread = GroupThread("group-test", rules, refuse, failed.set_result)
        thread.start()
        thread.put(item(0))
        assert isinstance(await failed, OSError)
        thread.put(item(1))
        await end(thread)

    run(story)


def test_rules_of_a_configuration() -> None:
    assert GroupRules.of(BookieConfig()).wait_ms == 0
    slow = BookieConfig(flush_when_queue_empty=False, group_wait_ms=7, group_entries_max=9)
    assert GroupRules.of(slow) == GroupRules(
        wait_ms=7, bytes_max=slow.group_bytes_max, entries_max=9
    )


@pytest.mark.parametrize("journal_write_data", [False, True])
def test_a_bookie_waits_for_company_when_it_is_told_to(
    tmp_path: Path, journal_write_data: bool
) -> None:
    async def story() -> None:
        bookie = await open_small(
            tmp_path,
            journal_write_data=journal_write_data,
            flush_when_queue_empty=False,
            group_wait_ms=60_000,
            group_entries_max=4,
        )
        first = [ask(bookie, add(L1, entry_id)) for entry_id in range(3)]
        await ask(bookie, read(L2, 0))  # time enough for whatever does not wait
        assert not any(answer.done() for answer in first)
        last = ask(bookie, add(L1, 3))  # five items with the master key
        assert {(await answer).status for answer in (*first, last)} == {StatusCode.EOK}
        assert bookie.metrics.groups_total == 1
        waiting = ask(bookie, add(L1, 4))
        await bookie.close()  # ends the wait
        assert (await waiting).status is StatusCode.EOK

    run(story)
