"""A broker dies (kill -9): how long until its clients have a record acknowledged again.

Three brokers on three bookies of ours, ZooKeeper as `tailrace cluster init` wants it, and sessions
as `tailrace broker` asks for them. A client that has its connections (librdkafka, idempotent) sends
one record to every partition that the broker led, the moment it is dead. What the time consists of:
ZooKeeper ends the session (1 s, and a tick), another broker opens the partitions, the client hears
of it.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Producer

from tailrace.tools.cluster.cluster import BROKER_SESSION_MS, ZOO_CFG
from tests.bench.logs import OURS, Figures
from tests.cluster.several_brokers import PARTITIONS, TOPIC, create, leaders, start, until
from tests.cluster.three_bookies import ThreeBookies
from tests.zookeeper import ZooKeeperServer

KILLS: Final = 20
NODES: Final = (1, 2, 3)
_WITHIN_S: Final = 60
_SESSION: Final = ("--set", f"zkSessionTimeout={BROKER_SESSION_MS}")


def measure(folder: Path, steps: Callable[[str], None]) -> Figures:
    """Run one round; return figures."""
    settings = "\n".join([*ZOO_CFG.split(), ""])
    server = ZooKeeperServer(folder / "zookeeper", settings=settings).start()
    try:
        with ThreeBookies(server, folder) as cluster:
            brokers = dict(zip(NODES, start(cluster, *NODES, more=_SESSION), strict=True))
            create(brokers[1])
            seen_ms = sorted(_one(brokers, NODES[at % len(NODES)], steps) for at in range(KILLS))
    finally:
        server.stop()
    return {
        OURS: {
            f"failover of a killed broker, {KILLS} kills: p50, ms": seen_ms[len(seen_ms) // 2],
            "failover of a killed broker: the longest, ms": seen_ms[-1],
        }
    }


def _one(brokers: dict[int, Any], victim: int, steps: Callable[[str], None]) -> float:
    """Kill one and start it again; return how long its partitions took no record. Unit: ms."""
    others = [each for node, each in brokers.items() if node != victim]
    until(lambda: victim in _leaders(others[0]))
    bootstrap = ",".join(each.bootstrap for each in brokers.values())
    settings = {"bootstrap.servers": bootstrap, "enable.idempotence": True, "log_level": 0}
    producer = Producer(settings)
    _send(producer, range(PARTITIONS))  # it has its connections, and knows who leads
    lost = [at for at, leader in enumerate(_leaders(others[0])) if leader == victim]
    began_s = time.monotonic()
    brokers[victim].kill()
    _send(producer, lost)
    took_ms = 1000 * (time.monotonic() - began_s)
    steps(f"broker {victim} with {len(lost)} partitions: {took_ms:.0f} ms")
    brokers[victim].restart()
    until(lambda: victim in _leaders(others[0]) and -1 not in _leaders(others[0]))
    return took_ms


def _leaders(broker: Any) -> list[int]:
    return leaders(broker, TOPIC)


def _send(producer: Any, partitions: Any) -> None:
    failed: list[object] = []
    for partition in partitions:
        producer.produce(
            TOPIC,
            b"x",
            partition=partition,
            on_delivery=lambda error, _: failed.append(error) if error else None,
        )
    assert producer.flush(_WITHIN_S) == 0
    assert not failed, failed
