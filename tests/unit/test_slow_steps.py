"""A machine that is busy adds nothing to what tests find in the log."""

import asyncio

import pytest


def test_debug_mode_tells_of_no_slow_step(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        asyncio.get_running_loop().slow_callback_duration = 0
        await asyncio.sleep(0)

    asyncio.run(main(), debug=True)
    assert not caplog.records
