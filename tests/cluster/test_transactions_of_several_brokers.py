"""Transactions over partitions, groups and coordinators of several brokers, some of which die."""

import os
import random
import time
from collections.abc import Iterator
from enum import Enum, auto

import pytest

from tailrace.protocol.errors import ErrorCode as E
from tests.cluster.acl_requests import AS_SUPER_USER
from tests.cluster.bank import TELLERS, Teller, check, open_bank
from tests.cluster.raw_cluster import RawCluster
from tests.cluster.three_bookies import ClusterBroker, ThreeBookies
from tests.cluster.transaction_story import TV1, TV2, Producer, Story, Versions
from tests.process import TailraceProcess
from tests.zookeeper import ZooKeeperServer

pytestmark = [
    pytest.mark.crash,
    pytest.mark.java,
    pytest.mark.timeout(300),
    pytest.mark.xdist_group("transactions of several brokers"),  # they share a cluster
]

_KILLS = int(os.environ.get("KILLS", "2"))
"""`KILLS=20` by hand; the suite cannot wait so long."""
_PROGRESS = 3
"""Transactions of each teller between two kills."""
_WITHIN_S = 120
_FEW_PARTITIONS = (
    "--set", "offsets.topic.num.partitions=4", "--set", "transaction.state.log.num.partitions=4",
)  # fmt: skip


@pytest.fixture(scope="module")
def brokers(
    zookeeper: ZooKeeperServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[list[ClusterBroker]]:
    """Three brokers, all of which run before and after each test.

    They have an authorizer: what they ask of each other needs CLUSTER_ACTION.
    """
    with ThreeBookies(zookeeper, tmp_path_factory.mktemp("cluster")) as cluster:
        yield [
            cluster.broker(
                "--set", f"node.id={number + 1}", *_FEW_PARTITIONS, *AS_SUPER_USER
            ).start()
            for number in range(3)
        ]


def test_any_broker_is_killed_and_transactions_stay_whole(brokers: list[ClusterBroker]) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    moments = random.Random(seed)
    bootstrap = ",".join(each.bootstrap for each in brokers)
    open_bank(bootstrap)
    tellers = [Teller(bootstrap, number, seed, rest_s=0.05) for number in range(TELLERS)]
    for teller in tellers:
        teller.start()
    for _ in range(_KILLS):
        wait_for_progress(tellers)
        time.sleep(moments.random() * 0.1)  # the random moment itself, not a synchronisation
        victim = moments.choice(brokers)
        victim.kill()
        victim.restart()  # soon: librdkafka waits for ever where Metadata leaves a coordinator out
    wait_for_progress(tellers)
    for teller in tellers:
        teller.stop()
    check(bootstrap, tellers, f"seed {seed}")


@pytest.mark.parametrize("versions", [TV1, TV2], ids=["version 1", "version 2"])
def test_the_outcome_reaches_every_broker_whoever_dies(
    brokers: list[ClusterBroker], versions: Versions
) -> None:
    client = RawCluster(brokers)
    story = spread_story(brokers, client)
    story.versions = versions
    me = story.init()
    expected: list[bytes] = []
    for committed, moment in [
        (True, Moment.NEVER),
        (False, Moment.NEVER),
        (True, Moment.WRITTEN),
        (versions is TV2, Moment.DECIDED),
    ]:
        value = b"%d" % len(expected)
        write(story, me, value)
        victim = None
        if moment is Moment.WRITTEN:  # its partition moves before the outcome is decided
            victim = kill_one_at(client, client.leader(story.a))
        me = story.ended(me, committed=committed)
        if moment is Moment.DECIDED:  # others have to bring the outcome about
            victim = kill_one_at(client, client.coordinator(story.name))
        expected += [value] * committed
        for topic in (story.a, story.b):
            story.wait_for(topic, *expected)
        if victim is not None:
            victim.restart()


def test_who_slept_through_it_ends_nobodys_next_transaction(brokers: list[ClusterBroker]) -> None:
    """Without version 2 the producer's epoch stays: only the coordinators' tell them apart."""
    everybody = RawCluster(brokers)
    story = spread_story(brokers, everybody)
    story.versions = TV1
    me = story.init()
    write(story, me, b"first")
    coordinator = everybody.broker_at(everybody.coordinator(story.name))
    owner = everybody.broker_at(everybody.leader(story.a))
    owner.pause()  # it will read its marker when it wakes up
    story.client = RawCluster([each for each in brokers if each is not owner])
    assert story.ended(me, committed=True) == me
    coordinator.pause()
    (awake,) = (each for each in brokers if each not in (owner, coordinator))
    story.client = RawCluster([awake])
    for topic in (story.a, story.b):
        story.wait_for(topic, b"first")
    write(story, me, b"second")
    owner.resume()
    coordinator.resume()
    owner.wait_for(f"partition failed partition={story.a}")
    coordinator.wait_for("event=new session")
    story.client = everybody
    assert story.committed(story.a) == story.committed(story.b) == [b"first"]
    story.ended(me, committed=False)
    write(story, me, b"third")
    story.ended(me, committed=True)
    for topic in (story.a, story.b):
        story.wait_for(topic, b"first", b"third")


class Moment(Enum):
    """When a broker dies in a transaction."""

    NEVER = auto()
    WRITTEN = auto()
    DECIDED = auto()


def write(story: Story, me: Producer, value: bytes) -> None:
    """Write a value to both topics."""
    assert story.add(me, story.a, story.b) is E.NONE
    for topic in (story.a, story.b):
        assert story.patiently(story.write, me, topic, value) is E.NONE


def kill_one_at(client: RawCluster, port: int | None) -> TailraceProcess:
    """Kill the broker at a port."""
    victim = client.broker_at(port)
    victim.kill()
    return victim


def spread_story(brokers: list[ClusterBroker], client: RawCluster) -> Story:
    """Return a story whose coordinator is another broker than its topics' owners, who differ."""
    while True:
        story = Story(brokers[0], client)
        ports = {client.coordinator(story.name), client.leader(story.a), client.leader(story.b)}
        if len(ports) == len(brokers) and None not in ports:
            return story


def wait_for_progress(tellers: list[Teller]) -> None:
    targets = [teller.transactions + _PROGRESS for teller in tellers]
    deadline = time.monotonic() + _WITHIN_S
    while any(each.transactions < to for each, to in zip(tellers, targets, strict=True)):
        assert time.monotonic() < deadline, "no progress"
        for teller in tellers:
            assert teller.errors == []
        time.sleep(0.005)
