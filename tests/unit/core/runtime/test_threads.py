import asyncio
import os
import threading

import pytest

from tailrace.core.errors import CorruptData
from tailrace.core.runtime.threads import JobThread, WorkerThread


def test_worker_is_given_all_that_waits_in_order() -> None:
    batches: list[list[int]] = []
    go = threading.Event()

    def work(batch: list[int]) -> None:
        go.wait(10)
        batches.append(batch)

    worker = WorkerThread[int]("w", work, _unexpected, weigh=lambda n: n, weight_max=10)
    for number in (1, 2, 3, 9, 9, 1, 20, 1):
        worker.put(number)
    worker.start()
    go.set()
    worker.stop()
    worker.join()
    assert batches == [[1, 2, 3, 9], [9, 1], [20], [1]]


def test_worker_ends_with_its_first_failure() -> None:
    done: list[int] = []
    errors: list[Exception] = []

    def work(batch: list[int]) -> None:
        if 3 in batch:
            raise OSError("no")
        done.extend(batch)

    worker = WorkerThread[int]("w", work, errors.append, weight_max=1)
    for number in range(6):
        worker.put(number)
    worker.start()
    worker.stop()
    worker.join()
    assert done == [0, 1, 2]
    assert [str(e) for e in errors] == ["no"]


def _unexpected(error: Exception) -> None:
    raise AssertionError(error)


def test_jobs_return_on_the_loop() -> None:
    async def main() -> None:
        loop_thread = threading.get_ident()
        failed: list[Exception] = []
        jobs = JobThread("j", failed.append)
        jobs.start()
        order: list[int] = []

        def then(number: int) -> None:
            assert threading.get_ident() == loop_thread
            order.append(number)

        for number in range(600):
            jobs.submit(lambda number=number: number, then)  # type: ignore[misc]
        assert await jobs.call(threading.get_ident) != loop_thread
        assert order == list(range(600))
        big = [jobs.call(lambda: bytes(3_000_000)) for _ in range(4)]
        assert [len(await b) for b in big] == [3_000_000] * 4

        def corrupt() -> None:
            raise CorruptData("bad")

        with pytest.raises(CorruptData):
            await jobs.call(corrupt)
        with pytest.raises(FileNotFoundError):
            await jobs.call(lambda: os.stat("/does/not/exist"))
        cancelled = jobs.call(lambda: 1)
        cancelled.cancel()
        assert await jobs.call(lambda: 2) == 2

        def bug() -> None:
            raise ZeroDivisionError

        lost = jobs.call(bug)
        jobs.stop()
        jobs.join()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert [type(e) for e in failed] == [ZeroDivisionError]
        assert not lost.done()

    asyncio.run(main(), debug=True)


def test_large_results_do_not_wait_for_the_jobs_behind_them() -> None:
    async def main() -> None:
        jobs = JobThread("j", _unexpected)
        go = threading.Event()
        large = [jobs.call(lambda: [memoryview(bytes(3_000_000))]) for _ in range(2)]
        last = jobs.call(lambda: go.wait(10))
        jobs.start()
        for result in large:
            assert len((await asyncio.wait_for(result, 5))[0]) == 3_000_000
        go.set()
        assert await last
        jobs.stop()
        jobs.join()

    asyncio.run(main(), debug=True)


def test_a_callback_that_raises_costs_the_others_nothing() -> None:
    async def main() -> None:
        errors: list[object] = []
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: errors.append(context["exception"]))
        jobs = JobThread("j", _unexpected)

        def broken(_: object) -> None:
            raise ZeroDivisionError

        jobs.submit(lambda: 1, broken)
        behind = jobs.call(lambda: 2)
        jobs.submit(lambda: 3, broken)
        last = jobs.call(lambda: 4)
        jobs.start()
        assert [await behind, await last] == [2, 4]
        assert [type(error) for error in errors] == [ZeroDivisionError] * 2
        jobs.stop()
        jobs.join()

    asyncio.run(main(), debug=True)
