"""The bookie in the same process: one reply each, also when the bookie fails under its requests."""

from pathlib import Path

import pytest

from tailrace.bookie.local import LocalBookieClient
from tailrace.core.ledger.bookie_client import ask
from tailrace.core.runtime.files import SystemFiles
from tailrace.protocol.bookkeeper.messages import StatusCode
from tests.unit.bookie.world import L1, L2, add, fence, open_small, read, run


def test_a_failed_bookie_leaves_nobody_without_an_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Adds, fences and what waits behind them: whoever waits for ever keeps the process alive."""

    async def story() -> None:
        bookie = await open_small(tmp_path)
        client = LocalBookieClient(bookie, bookie.bookie_id)
        assert (await ask(client, add(L1, 0))).status is StatusCode.EOK

        def sync(_files: SystemFiles, _fd: int) -> None:
            raise OSError(5, "Input/output error")

        monkeypatch.setattr(SystemFiles, "sync", sync)
        asked = [
            ask(client, request)
            for request in (add(L1, 1), fence(L1), add(L2, 0), fence(L2), add(L1, 2))
        ]
        for answer in asked:
            assert (await answer).status is not StatusCode.EOK
        assert bookie.failed.done()
        assert (await ask(client, read(L1, 0))).status is StatusCode.LOCAL_UNAVAILABLE
        await bookie.close()

    run(story)
