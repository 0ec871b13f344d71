import asyncio
from pathlib import Path

import pytest

from tailrace.core.log.config import LogConfig
from tailrace.core.log.namespace import LogNamespace
from tailrace.core.log.overrides import OVERRIDABLE, with_overrides
from tailrace.core.runtime.config import ConfigError, values_of
from tests.unit.core.log.world import Listener, World, run_world, write

CONFIG = LogConfig(client_id="me", segment_bytes=5, ensemble_size=3, write_quorum=3, ack_quorum=2)


def test_a_log_has_its_own_and_inherits_the_rest() -> None:
    own = with_overrides(
        CONFIG, {"bkcAckQuorumSize": "3", "periodicFlushFrequencyMilliSeconds": "7"}, "s"
    )
    changed = {key for key, value in values_of(own).items() if values_of(CONFIG)[key] != value}
    assert changed == {"bkcAckQuorumSize", "periodicFlushFrequencyMilliSeconds"}
    assert (own.ack_quorum, own.control_flush_ms) == (3, 7)
    assert with_overrides(CONFIG, {}, "s") is CONFIG
    assert set(OVERRIDABLE) <= set(values_of(CONFIG))


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"bkcAckQuorumSizes": "1"}, "cannot be set for log s; did you mean bkcAckQuorumSize"),
        ({"maxLogSegmentBytes": "1"}, "maxLogSegmentBytes cannot be set for log s"),
        ({"bkcAckQuorumSize": "many"}, "bkcAckQuorumSize = 'many' .log s.: expected an integer"),
        ({"bkcAckQuorumSize": "4"}, "bkcEnsembleSize >= "),
    ],
)
def test_what_a_log_cannot_have_is_refused(overrides: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        with_overrides(CONFIG, overrides, "s")


async def refused(namespace: LogNamespace, name: str, overrides: dict[str, str]) -> bool:
    try:
        await namespace.open_log(name, overrides)
    except ConfigError:
        return True
    return False


def test_a_log_is_written_with_its_own_settings(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        namespace = world.namespace()
        for name, own in (
            ("one", {}),
            ("two", {"bkcEnsembleSize": "2", "bkcWriteQuorumSize": "2"}),
        ):
            await namespace.create_log(name)
            log = await namespace.open_log(name, own)
            writer = await log.open_writer(Listener())
            await write(writer, 1)
            await writer.close()
        copies = []
        for name in ("one", "two"):
            log = await namespace.open_log(name)
            ledger = await world.ledgers().ledger_metadata(log.segments.segments[0].ledger_id)
            copies.append(ledger.write_quorum)
        assert copies == [1, 2]
        assert await namespace.open_log("one", {}) is await namespace.open_log("one")
        with pytest.raises(ConfigError, match="open with other settings"):
            await namespace.open_log("two", {})
        with pytest.raises(ConfigError):
            await namespace.open_log("three", {"x": "y"})
        await namespace.create_log("four")
        async with asyncio.TaskGroup() as group:  # of two that open it at once the first counts
            first = group.create_task(namespace.open_log("four"))
            second = group.create_task(refused(namespace, "four", {"bkcEnsembleSize": "2"}))
        assert second.result()
        assert await namespace.open_log("four", {}) is first.result()

    run_world(tmp_path, story, bookies=2)
