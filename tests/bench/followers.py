"""What Kafka's consumers get from a follower of their rack, beside what the owner gives (KIP-392).

One owner, one follower, three bookies, two copies; the same topic is read from both in turn.
`python -m tests.bench.followers SECONDS ROUNDS` prints rates in MB/s and their ratio.
"""

import statistics
import sys
import tempfile
from pathlib import Path
from typing import Final

from tests.bench.workloads import client
from tests.cluster.racks import FAR, FOLLOWER, LEADER, RACKS, bootstrap, create, racked_pair
from tests.cluster.three_bookies import ThreeBookies
from tests.zookeeper import ZooKeeperServer

PARTITIONS: Final = 6
RECORD_BYTES: Final = 1024
COPIES: Final = 2
SETTINGS: Final = {"tail.cache.bytes": "16777216"}
"""Less than is produced: an owner would have all of it in memory, a follower what came lately."""


def measure(
    folder: Path, seconds: float, rounds: int, batch_bytes: int = 16_384
) -> dict[str, list[float]]:
    """Return rates by who was read from, one a round, of what `seconds` of producing left."""
    zookeeper = ZooKeeperServer(folder / "zookeeper").start()
    try:
        with ThreeBookies(zookeeper, folder) as cluster, racked_pair(cluster, **SETTINGS) as pair:
            create(pair, "rates", PARTITIONS, copies=COPIES)
            at = {"bootstrap": bootstrap(pair), "topic": "rates", "partitions": PARTITIONS}
            load = {"record_bytes": RECORD_BYTES, **at}
            client("produce", batch_bytes=batch_bytes, seconds=seconds, **load)
            rates: dict[str, list[float]] = {"owner": [], "follower": []}
            for _ in range(rounds):
                rates["owner"].append(client("consume", rack=RACKS[LEADER], **load)["mb_s"])
                before = pair[FOLLOWER].fetched
                found = client("consume", rack=FAR, **load)
                assert pair[FOLLOWER].fetched - before >= found["bytes"], "the owner gave some"
                rates["follower"].append(found["mb_s"])
            return rates
    finally:
        zookeeper.stop()


def main() -> None:
    seconds, rounds = float(sys.argv[1]), int(sys.argv[2])
    with tempfile.TemporaryDirectory() as folder:
        rates = measure(Path(folder), seconds, rounds)
    for name, found in rates.items():
        print(name, " ".join(f"{each:.0f}" for each in found))
    print(f"{statistics.median(rates['follower']) / statistics.median(rates['owner']):.2f}")


if __name__ == "__main__":
    main()
