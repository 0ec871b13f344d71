import asyncio
from typing import Any

from tailrace.core.runtime.listeners import tell
from tailrace.core.runtime.task_health import task_health


def test_what_one_listener_raises_is_told_and_costs_nobody_else() -> None:
    async def story() -> None:
        heard: list[Any] = []
        raised: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, what: raised.append(what))

        def bad(_: int) -> None:
            raise ZeroDivisionError("a bug")

        for listener in (bad, heard.append):
            tell("owner", listener, 7)
        assert heard == [7]
        assert [str(each["exception"]) for each in raised] == ["a bug"]
        (said,) = task_health().status()["failed_tasks"]
        assert (said["task"], said["failing"]) == ("owner", False)

    asyncio.run(story(), debug=True)
