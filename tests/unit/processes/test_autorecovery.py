"""What ends a process of auto-recovery, and what it is called."""

import asyncio
import gc
import logging
import os
from collections.abc import Iterator

import pytest

from tailrace.processes.autorecovery import AutoRecovery, serving
from tailrace.processes.autorecovery_config import AutoRecoveryProcessConfig
from tailrace.processes.lifecycle import serve_until


@pytest.fixture(autouse=True)
def collector() -> Iterator[None]:
    """Leave the collector of this process as it was."""
    thresholds, callbacks = gc.get_threshold(), list(gc.callbacks)
    yield
    gc.set_threshold(*thresholds)
    gc.callbacks[:] = callbacks
    gc.unfreeze()


async def _broken() -> None:
    raise ZeroDivisionError("a bug")


async def _well() -> None:
    await asyncio.Event().wait()


def test_a_part_that_fails_by_a_bug_ends_the_process(
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> int:
        running = AutoRecovery("me")
        running.tasks.start(_well(), "worker")
        running.tasks.start(_broken(), "auditor")
        async with asyncio.timeout(60):
            code = await serve_until(serving(running), asyncio.Event())
        await running.tasks.close()
        return code

    with caplog.at_level(logging.ERROR):
        assert asyncio.run(story()) == 1
    assert capsys.readouterr().out == "ready: autorecovery=me\n"
    assert "a bug" in caplog.text


def test_a_signal_ends_it_well() -> None:
    async def story() -> int:
        running, stop = AutoRecovery("me"), asyncio.Event()
        running.tasks.start(_well(), "worker")
        stop.set()
        code = await serve_until(serving(running), stop)
        await running.tasks.close()
        return code

    assert asyncio.run(story()) == 0


def test_its_name_tells_which_process_it_is() -> None:
    host, _, pid = AutoRecoveryProcessConfig().identity.rpartition(":")
    assert host
    assert pid == str(os.getpid())
    assert AutoRecoveryProcessConfig(name="first").identity == "first"


def test_both_configs_are_of_the_cluster_that_is_named() -> None:
    config = AutoRecoveryProcessConfig(metadata_uri="zk://h1:2181,h2:2181/some/ledgers")
    assert config.recovery_config().root == config.ledger_config().root == "/some/ledgers"
