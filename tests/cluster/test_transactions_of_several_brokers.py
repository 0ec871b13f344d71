"""Transactions over partitions, groups and coordinators of several brokers, some of which die."""

import os
import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.bank import TELLERS, Teller, check, open_bank
from tests.cluster.three_bookies import ClusterBroker, ThreeBookies
from tests.zookeeper import ZooKeeperServer

pytestmark = [pytest.mark.crash, pytest.mark.java, pytest.mark.timeout(300)]

_KILLS = int(os.environ.get("KILLS", "3"))
"""`KILLS=20` by hand; the suite cannot wait so long."""
_PROGRESS = 3
"""Transactions of each teller between two kills."""
_WITHIN_S = 120
_FEW_PARTITIONS = (
    "--set", "offsets.topic.num.partitions=4", "--set", "transaction.state.log.num.partitions=4",
)  # fmt: skip


@pytest.fixture
def cluster(zookeeper: ZooKeeperServer, tmp_path: Path) -> Iterator[ThreeBookies]:
    with ThreeBookies(zookeeper, tmp_path) as made:
        yield made


def start_brokers(cluster: ThreeBookies, count: int) -> list[ClusterBroker]:
    return [
        cluster.broker("--set", f"node.id={number + 1}", *_FEW_PARTITIONS).start()
        for number in range(count)
    ]


def test_any_broker_is_killed_and_transactions_stay_whole(cluster: ThreeBookies) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    moments = random.Random(seed)
    brokers = start_brokers(cluster, 3)
    bootstrap = ",".join(each.bootstrap for each in brokers)
    open_bank(bootstrap)
    tellers = [Teller(bootstrap, number, seed) for number in range(TELLERS)]
    for teller in tellers:
        teller.start()
    for _ in range(_KILLS):
        wait_for_progress(tellers)
        time.sleep(moments.random() * 0.1)  # the random moment itself, not a synchronisation
        victim = moments.choice(brokers)
        victim.kill()
        if moments.random() < 0.5:
            wait_for_progress(tellers)  # others have taken its part over
        victim.restart()
    wait_for_progress(tellers)
    for teller in tellers:
        teller.stop()
    check(bootstrap, tellers, f"seed {seed}")


def wait_for_progress(tellers: list[Teller]) -> None:
    targets = [teller.transactions + _PROGRESS for teller in tellers]
    deadline = time.monotonic() + _WITHIN_S
    while any(each.transactions < to for each, to in zip(tellers, targets, strict=True)):
        assert time.monotonic() < deadline, "no progress"
        for teller in tellers:
            assert teller.errors == []
        time.sleep(0.005)
