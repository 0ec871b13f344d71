"""Restoring a changelog: an aiokafka loop, a confluent-kafka loop and ours, each in a process."""

from collections.abc import Callable
from pathlib import Path
from typing import Final

from tests.bench.brokers import Kind, started
from tests.bench.workloads import client

_JOBS: Final = "tests.bench.restore_client"
KEYS: Final = 100_000
READERS: Final = ("restore", "aiokafka", "confluent")


def measure(
    kind: Kind, folder: Path, *, seconds: float, is_quick: bool, steps: Callable[[str], None]
) -> dict[str, dict[str, float]]:
    """Return records/s of each reader, from one broker of this kind, over the same topics."""
    found: dict[str, dict[str, float]] = {reader: {} for reader in READERS}
    with started(kind, folder) as broker:
        for record_bytes in (1024,) if is_quick else (100, 1024):
            for codec in ("none",) if is_quick else ("none", "lz4"):
                # As many records as a loop of 100,000 records/s reads in the time given.
                records = int(seconds * 100_000)
                name = f"{kind.name}: {record_bytes} bytes, {codec}: records/s"
                common = {
                    "bootstrap": broker.bootstrap,
                    "topic": f"restored-{record_bytes}-{codec}",
                    "records": records,
                }
                fill = {"record_bytes": record_bytes, "codec": codec, "keys": KEYS}
                client("fill", module=_JOBS, **fill, **common)
                for reader in READERS:
                    took_s = client(reader, module=_JOBS, **common)["seconds"]
                    found[reader][name] = records / took_s
                steps(name)
    return found
