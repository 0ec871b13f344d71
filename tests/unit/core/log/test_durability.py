"""The regions that hold a log's records: refused when it is configured, made and opened."""

from pathlib import Path
from random import Random
from typing import Any

import pytest

from tailrace.core.errors import InvalidQuorums
from tailrace.core.ledger.bookie_registry import LocalBookies
from tailrace.core.ledger.client import LedgerClient
from tailrace.core.ledger.config import LedgerClientConfig
from tailrace.core.ledger.durability import promise_of
from tailrace.core.ledger.placement_config import PlacementConfig, PolicyName
from tailrace.core.log.config import LogConfig
from tailrace.core.log.namespace import LogNamespace
from tailrace.core.runtime.clock import ManualClock
from tailrace.core.runtime.config import ConfigError
from tests.unit.core.ledger.fake_bookie import FakeBookie
from tests.unit.core.ledger.world import World, run_world
from tests.unit.core.log.world import Listener

REGIONAL = tuple(f"b{i}=/{'xyz'[i // 2]}/{i % 2}" for i in range(6))


def namespace(world: World, placement: PlacementConfig, config: LogConfig) -> LogNamespace:
    bookies = LocalBookies([FakeBookie(f"b{i}") for i in range(6)])
    ledgers = LedgerClient(world.store, bookies, LedgerClientConfig(placement=placement), Random(7))
    return LogNamespace(world.store, ledgers, config, ManualClock())


def quorums(size: int, write: int, ack: int, **more: Any) -> LogConfig:
    return LogConfig(ensemble_size=size, write_quorum=write, ack_quorum=ack, **more)


def test_configuration_refuses_the_seeds_bad_example() -> None:
    with pytest.raises(ValueError, match=r"log.min.regions.for.durability: an ack quorum of 8 of"):
        quorums(15, 15, 8, regions_min=2)
    assert quorums(15, 15, 9, regions_min=2).ledger_config().regions_min == 2


def test_creating_and_opening_refuse_what_the_client_promises(tmp_path: Path) -> None:
    """The namespace asks for nothing; reppMinimumRegionsForDurability of the client does."""
    placement = PlacementConfig(policy=PolicyName.REGION_AWARE, locations=REGIONAL, regions_min=2)

    async def story(world: World) -> None:
        bad = namespace(world, placement, quorums(4, 4, 2))
        with pytest.raises(InvalidQuorums, match="an ack quorum of 2 of 4 can be had without"):
            await bad.create_log("a")
        assert not await bad.log_exists("a")
        await bad.create_log("b", {"bkcAckQuorumSize": "3"})
        good = namespace(world, placement, quorums(4, 4, 3))
        await good.create_log("a")
        with pytest.raises(InvalidQuorums):
            await bad.open_log("a")
        await bad.open_log("a", {"bkcAckQuorumSize": "3"})
        with pytest.raises(InvalidQuorums):
            await good.open_log("a", {"bkcAckQuorumSize": "2"})

    run_world(tmp_path, story)


def test_a_stream_has_a_promise_of_its_own(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        placement = PlacementConfig(locations=REGIONAL)
        logs = namespace(world, placement, quorums(4, 4, 3))
        await logs.create_log("a")
        with pytest.raises(ConfigError, match="an ack quorum of 3 of 4 can be had"):
            await logs.open_log("a", {"log.min.regions.for.durability": "3"})
        log = await logs.open_log("a", {"log.min.regions.for.durability": "2"})
        listener = Listener()
        writer = await log.open_writer(listener)
        writer.append(1, (b"x",), 1)
        await listener.reached(1)
        ledger_id = log.segments.last.ledger_id
        metadata = await logs._context.ledgers.ledger_metadata(ledger_id)
        assert promise_of(metadata.custom) == 2
        places = dict(placement.table())
        regions = [places[bookie].region for bookie in metadata.fragments[0].ensemble]
        assert max(regions.count(region) for region in regions) <= 2
        await writer.close()
        await logs.close()

    run_world(tmp_path, story)
