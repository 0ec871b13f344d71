"""What Kafka's consumers get from a follower of their rack, beside what the owner gives (KIP-392).

One owner, one follower, three bookies, two copies; the same topic is read from both in turn. It is
part of the suite of proxies: followers and read proxies stand on the same shared reading.
"""

from pathlib import Path
from typing import Final, NamedTuple

import psutil

from tests.bench.workloads import client
from tests.cluster.racks import FOLLOWER, LEADER, RACKS, bootstrap, create, racked_pair
from tests.cluster.three_bookies import ThreeBookies
from tests.zookeeper import ZooKeeperServer

PARTITIONS: Final = 6
RECORD_BYTES: Final = 1024
COPIES: Final = 2
SETTINGS: Final = {"tail.cache.bytes": "16777216"}
"""Less than is produced: an owner would have all of it in memory, a follower what came lately."""
NAMES: Final = {LEADER: "owner", FOLLOWER: "follower"}


class Reading(NamedTuple):
    """One consumer that read everything."""

    mb_s: float
    cpu_s_gb: float
    """Of the broker that it read from."""


def measure(
    folder: Path, seconds: float, rounds: int, batch_bytes: int = 16_384
) -> dict[str, list[Reading]]:
    """Return by who was read from, one a round, what became of `seconds` of producing."""
    zookeeper = ZooKeeperServer(folder / "zookeeper").start()
    try:
        with (
            ThreeBookies(zookeeper, folder) as cluster,
            racked_pair(cluster, **SETTINGS) as pair,
        ):
            create(pair, "rates", PARTITIONS, copies=COPIES)
            at = {"bootstrap": bootstrap(pair), "topic": "rates", "partitions": PARTITIONS}
            load = {"record_bytes": RECORD_BYTES, **at}
            client("produce", batch_bytes=batch_bytes, seconds=seconds, **load)
            found: dict[str, list[Reading]] = {name: [] for name in NAMES.values()}
            for _ in range(rounds):
                for node_id, name in NAMES.items():
                    process = psutil.Process(pair[node_id].process.pid)
                    followed, cpu_s = pair[FOLLOWER].fetched, _cpu_s(process)
                    read = client("consume", rack=RACKS[node_id], **load)
                    cpu_s = _cpu_s(process) - cpu_s
                    followed = pair[FOLLOWER].fetched - followed
                    assert (followed >= read["bytes"]) is (node_id == FOLLOWER)
                    found[name].append(Reading(read["mb_s"], cpu_s * 1e9 / read["bytes"]))
            return found
    finally:
        zookeeper.stop()


def _cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return times.user + times.system
