"""Clients whose answers are lost, refused and late, and a power cut under load: what must be there.

Killing a broker hits whatever request is under way; these faults hit each request of a transaction,
before and after it took effect, for certain.
"""

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import SystemRandom

import pytest

from tailrace.testing import Broker, Fault
from tests.cluster.bank import TELLERS, Teller, check, open_bank
from tests.cluster.fault_port import FaultPort
from tests.cluster.load import Load, create_topic
from tests.cluster.three_bookies import ThreeBookies
from tests.zookeeper import ZooKeeperServer

pytestmark = [pytest.mark.crash, pytest.mark.slow, pytest.mark.timeout(600)]

_WITHIN_S = 120
_CUTS = int(os.environ.get("KILLS", "2"))
"""`KILLS=20` by hand; the suite cannot wait so long."""
REST_S = 0.01
"""After each transaction: a client waits for seconds for an answer that was lost, and the other one
would make thousands meanwhile."""
FEW_PARTITIONS = (
    "--set", "offsets.topic.num.partitions=4", "--set", "transaction.state.log.num.partitions=4",
    "--test-faults", "127.0.0.1:0",
)  # fmt: skip
OF_TRANSACTIONS = ("AddPartitionsToTxn", "Produce", "AddOffsetsToTxn", "TxnOffsetCommit", "EndTxn")
REFUSALS = (
    ("AddPartitionsToTxn", "CONCURRENT_TRANSACTIONS"),
    ("Produce", "NOT_LEADER_OR_FOLLOWER"),
    ("Produce", "NOT_ENOUGH_REPLICAS"),
    ("AddOffsetsToTxn", "COORDINATOR_LOAD_IN_PROGRESS"),
    ("TxnOffsetCommit", "NOT_COORDINATOR"),
    ("EndTxn", "NOT_COORDINATOR"),
    ("EndTxn", "COORDINATOR_NOT_AVAILABLE"),
)


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


def test_money_stays_whole_whichever_answer_is_lost(broker: Broker) -> None:
    seed = SystemRandom().randrange(1 << 32)
    open_bank(broker.bootstrap)
    tellers = [Teller(broker.bootstrap, number, seed, rest_s=REST_S) for number in range(TELLERS)]
    for teller in tellers:
        teller.start()
    for api in OF_TRANSACTIONS:
        for when in ("before", "after"):
            hit(broker.drop_next(api, when=when), tellers)  # type: ignore[arg-type]
    for api, error in REFUSALS:
        hit(broker.fail_next(api, error), tellers)
    with broker.delay("EndTxn", 50):
        progress(tellers)
    broker.cut_connections()
    progress(tellers)
    for teller in tellers:
        teller.stop()
    check(broker.bootstrap, tellers, f"seed {seed}")


def test_what_was_acknowledged_outlives_power_cuts(broker: Broker) -> None:
    create_topic(broker.bootstrap)
    load = Load(broker.bootstrap)
    load.start()
    for _ in range(_CUTS):
        load.wait_for_progress(300)
        broker.lose_unsynced()
        broker.start()
    load.wait_for_progress(300)
    load.finish()
    load.check(broker.bootstrap)


@pytest.mark.java
def test_money_stays_whole_when_brokers_lose_each_others_answers(
    zookeeper: ZooKeeperServer, tmp_path: Path
) -> None:
    with ThreeBookies(zookeeper, tmp_path) as cluster:
        brokers = [
            cluster.broker("--set", f"node.id={number}", *FEW_PARTITIONS).start()
            for number in (1, 2)
        ]
        ports = [FaultPort(each.output) for each in brokers]
        assert ports[0].ask("POST", fault="fill_disk") == (
            400,
            {
                "error": "this process keeps no files, its bookies do",
                "place": "fault",
                "remedy": "use `tailrace start`",
            },
        )
        bootstrap = ",".join(each.bootstrap for each in brokers)
        open_bank(bootstrap)
        tellers = [Teller(bootstrap, number, 0) for number in range(TELLERS)]
        for teller in tellers:
            teller.start()
        for when in ("before", "after"):
            for port in ports:
                port.ask("POST", fault="drop_next", api="WriteTxnMarkers", when=when)
            until(lambda: any(each["hits"] for port in ports for each in port.ask("GET")[1]))
            progress(tellers)
            for port in ports:
                port.ask("DELETE")
        for teller in tellers:
            teller.stop()
        check(bootstrap, tellers, "two brokers")


def hit(fault: Fault, tellers: list[Teller]) -> None:
    """Wait until a fault was met, and was got over by all."""
    until(lambda: fault.hits)
    progress(tellers)


def until(is_met: Callable[[], object]) -> None:
    """Wait until a request has met a fault."""
    deadline = time.monotonic() + _WITHIN_S
    while not is_met():
        assert time.monotonic() < deadline, "no request met the fault"
        time.sleep(0.005)


def progress(tellers: list[Teller]) -> None:
    """Wait until each teller has committed once more."""
    targets = [teller.transactions + 1 for teller in tellers]
    deadline = time.monotonic() + _WITHIN_S
    while any(each.transactions < to for each, to in zip(tellers, targets, strict=True)):
        assert time.monotonic() < deadline, "no progress"
        for teller in tellers:
            assert teller.errors == []
        time.sleep(0.005)
