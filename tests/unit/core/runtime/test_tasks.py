import asyncio

import pytest

from tailrace.core.runtime.tasks import Tasks


def test_work_runs_and_is_forgotten() -> None:
    async def main() -> None:
        tasks = Tasks("owner")
        done = asyncio.Event()

        async def work() -> None:
            done.set()

        task = tasks.spawn(work(), "work")
        assert task.get_name() == "owner.work"
        assert len(tasks) == 1
        await task
        await asyncio.sleep(0)
        assert done.is_set()
        assert len(tasks) == 0
        await tasks.close()

    asyncio.run(main(), debug=True)


def test_failure_is_logged_once_and_told(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        told: list[Exception] = []
        tasks = Tasks("owner", told.append)

        async def work() -> None:
            raise ValueError("no luck")

        await tasks.spawn(work(), "work")
        assert [str(error) for error in told] == ["no luck"]
        await tasks.close()

    asyncio.run(main(), debug=True)
    assert [r.getMessage() for r in caplog.records] == ["task_failed owner=owner task=work"]


def test_close_ends_everything_and_refuses_more() -> None:
    async def main() -> None:
        tasks = Tasks("owner")
        ended: list[str] = []

        async def work(name: str) -> None:
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                ended.append(name)

        tasks.start(work("a"), "a")
        tasks.start(work("b"), "b")
        await asyncio.sleep(0)
        tasks.start(work("never begun"), "c")
        await tasks.close()
        await tasks.close()
        assert sorted(ended) == ["a", "b"]
        with pytest.raises(RuntimeError, match="closed"):
            tasks.start(work("d"), "d")

    asyncio.run(main(), debug=True)


def test_cancelling_one_task_is_no_failure(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        told: list[Exception] = []
        tasks = Tasks("owner", told.append)
        task = tasks.spawn(asyncio.sleep(100), "work")
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
        assert told == []
        await tasks.close()

    asyncio.run(main(), debug=True)
    assert caplog.records == []
