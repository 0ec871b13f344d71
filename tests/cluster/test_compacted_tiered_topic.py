"""A compacted topic in two tiers: a real client has its table back, whatever is where."""

import random
import time
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from tests.cluster.cli import output, parsed
from tests.cluster.test_cleaner import CONFIGS, TOPIC, Factory, Table, planned, started, wait_until
from tests.process import TailraceProcess

pytestmark = pytest.mark.crash

TIERED = {"remote.storage.enable": "true", "local.retention.bytes": "1"}
SETTINGS = (
    "log.retention.check.interval.ms=200",
    "log.segment.delete.delay.ms=0",
    "log.level=info",
    "cold.block.bytes=65536",
)
REWRITTEN = "in_cold_storage=["
_KILLS = 2


def alter(broker: TailraceProcess, topic: str, configs: dict[str, str]) -> None:
    client = AdminClient({"bootstrap.servers": broker.bootstrap})
    entries = [
        ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        for name, value in configs.items()
    ]
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
    for done in client.incremental_alter_configs([resource]).values():
        done.result(30)


def metadata_of(broker: TailraceProcess) -> tuple[str, str]:
    return "--namespace", f"sqlite:{broker.data / 'metadata.db'}"


def cold_only(broker: TailraceProcess) -> int:
    rows = parsed("cold", "status", *metadata_of(broker))
    return sum(row["cold_only"] for row in rows if row["log"] == f"{TOPIC}-0")


def rewrites_in_cold(broker: TailraceProcess) -> int:
    return sum(
        REWRITTEN in line and f"{REWRITTEN}]" not in line and TOPIC in line
        for line in broker.output.splitlines()
    )


def test_what_is_cold_is_cleaned_and_read(broker_factory: Factory, tmp_path: Path) -> None:
    cold = tmp_path / "cold"
    broker, admin = started(broker_factory, *SETTINGS, f"cold.storage.url={cold}")
    client = AdminClient({"bootstrap.servers": broker.bootstrap})
    client.create_topics([NewTopic("made", 1, 1, config=CONFIGS | TIERED)])["made"].result(30)
    alter(broker, TOPIC, TIERED)
    table = Table(broker)
    half_cold(broker, admin, table)
    broker.wait_for("segments released")
    output("cleaner", "resume", "-a", admin)
    wait_until(lambda: is_cleaned(admin))
    wait_until(lambda: rewrites_in_cold(broker))  # else cold segments keep what was superseded
    table.check()

    moments = random.Random(5)
    for _ in range(_KILLS):
        table.change(1000)
        time.sleep(moments.random() * 0.5)  # the random moment itself, not a synchronisation
        broker.kill()
        broker.restart()
        table.check()
    wait_until(lambda: is_cleaned(admin))
    records = table.check()
    (stats,) = parsed("topic", "stats", TOPIC, "-a", admin)["partitions"]
    assert (stats["records"], stats["bound"]) == (records, None)
    assert stats["live_keys"] == sum(value is not None for value in table.rows.values())
    assert parsed("cleaner", "status", "-a", admin)["uncleanable"] == []

    records = half_cold(broker, admin, table)
    alter(broker, TOPIC, {"remote.storage.enable": "false"})  # what is cold stays there
    broker.kill()
    broker.restart()
    table.check()
    wait_until(lambda: is_cleaned(admin))
    assert table.check() < records


def half_cold(broker: TailraceProcess, admin: str, table: Table) -> int:
    """Change the table, until what is clean is in cold storage only; return all records."""
    table.change(2000)
    wait_until(lambda: is_cleaned(admin))
    output("cleaner", "pause", "-a", admin)
    table.change(2000)  # segments behind the clean ones: the last one is never released
    wait_until(lambda: cold_only(broker))
    return table.check()


def is_cleaned(admin: str) -> bool:
    return bool(planned(admin, f"{TOPIC}-0")["cleanable_bytes"] == 0)
