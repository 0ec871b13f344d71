"""What Jepsen found in transactions of Kafka and its peers, by name, with raw requests.

Bufstream 0.1.0 and Kafka itself (2024): requests that are late or come twice tear transactions,
commit what was aborted, or end the next transaction (KIP-890 is the answer).
"""

from collections.abc import Iterator

import pytest

from tailrace.protocol.errors import ErrorCode
from tests.cluster.raw import RawClient
from tests.cluster.transaction_story import TV1, TV2, Story, Versions
from tests.process import TailraceProcess

E = ErrorCode
OPEN_MS = 300
"""How long a transaction of these tests may stay open where that matters."""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TailraceProcess]:
    """A broker that looks for transactions that are open too long five times a second."""
    often = "transaction.abort.timed.out.transaction.cleanup.interval.ms=200"
    folder = tmp_path_factory.mktemp("broker") / "data"
    with TailraceProcess(folder, "--set", often) as running:
        yield running


@pytest.fixture
def story(broker: TailraceProcess) -> Iterator[Story]:
    with RawClient(broker) as client:
        yield Story(broker, client)


by_version = pytest.mark.parametrize("versions", [TV1, TV2], ids=["TV1", "TV2"])


@by_version
@pytest.mark.parametrize("committed", [True, False])
def test_all_partitions_or_none(story: Story, versions: Versions, committed: bool) -> None:
    story.versions = versions
    me = story.init()
    assert story.add(me, story.a, story.b) is E.NONE
    assert story.write(me, story.a, b"a") is E.NONE
    assert story.write(me, story.b, b"b") is E.NONE
    assert story.committed(story.a) == story.committed(story.b) == []
    story.ended(me, committed=committed)
    plain = [b"a"] if committed else []
    story.wait_for(story.a, *plain)
    story.wait_for(story.b, *([b"b"] if committed else []))


def test_a_late_end_does_not_commit_the_next_transaction(story: Story) -> None:
    me = story.init()
    assert story.write(me, story.a, b"first") is E.NONE
    after = story.ended(me, committed=True)
    assert after == me._replace(epoch=me.epoch + 1)
    assert story.write(after, story.a, b"second") is E.NONE
    late = story.end(me, committed=True)  # the same request, by another way
    assert late is E.PRODUCER_FENCED
    assert story.committed(story.a) == [b"first"]
    story.ended(after, committed=False)
    story.init()  # waits until the abort is complete
    assert story.committed(story.a) == [b"first"]


def test_an_end_that_is_repeated_is_answered_as_the_first(story: Story) -> None:
    me = story.init()
    assert story.write(me, story.a, b"once") is E.NONE
    after = story.ended(me, committed=True)
    assert story.ended(me, committed=True) == after
    other = story.patiently(story.end, me, committed=False)
    assert other is E.INVALID_TXN_STATE
    story.wait_for(story.a, b"once")


@by_version
def test_a_write_that_comes_after_the_end_is_in_no_transaction(
    story: Story, versions: Versions
) -> None:
    """Torn transaction: the end overtook the last write. It is refused, not kept for the next."""
    story.versions = versions
    me = story.init()
    assert story.add(me, story.a, story.b) is E.NONE
    assert story.write(me, story.a, b"a") is E.NONE
    after = story.ended(me, committed=True)
    story.wait_for(story.a, b"a")
    refused = E.TRANSACTION_ABORTABLE if versions is TV1 else E.INVALID_PRODUCER_EPOCH
    assert story.send_late(me, story.b, b"late", 0) is refused
    assert story.add(after, story.a) is E.NONE
    assert story.write(after, story.a, b"next") is E.NONE
    assert story.send_late(me, story.b, b"late", 0) is refused
    story.ended(after, committed=True)
    assert story.committed(story.b) == []


def test_what_was_aborted_is_not_read_with_the_next_transaction(story: Story) -> None:
    """Aborted read: a write of the aborted transaction arrives in the middle of the next one."""
    me = story.init()
    assert story.write(me, story.a, b"aborted") is E.NONE
    after = story.ended(me, committed=False)
    assert story.write(after, story.a, b"second") is E.NONE
    assert story.send(me, story.a, b"aborted too", 1) is E.INVALID_PRODUCER_EPOCH
    story.ended(after, committed=True)
    story.wait_for(story.a, b"second")


@by_version
def test_a_zombie_writes_and_ends_nothing(story: Story, versions: Versions) -> None:
    story.versions = versions
    zombie = story.init()
    assert story.add(zombie, story.a) is E.NONE
    assert story.write(zombie, story.a, b"zombie") is E.NONE
    me = story.init()  # aborts what the other has open
    assert me.epoch > zombie.epoch
    assert story.write(zombie, story.a, b"again") is E.INVALID_PRODUCER_EPOCH
    assert story.end(zombie, committed=True) is E.PRODUCER_FENCED
    if versions is TV1:
        assert story.add(zombie, story.a) is E.PRODUCER_FENCED
    assert story.add(me, story.a) is E.NONE
    assert story.write(me, story.a, b"mine") is E.NONE
    story.ended(me, committed=True)
    story.wait_for(story.a, b"mine")


@by_version
def test_nobody_waits_longer_for_a_dead_producer_than_it_may_take(
    story: Story, versions: Versions
) -> None:
    story.versions = versions
    dead = story.init(timeout_ms=OPEN_MS)
    assert story.add(dead, story.a) is E.NONE
    assert story.write(dead, story.a, b"never") is E.NONE
    story.write_plainly(story.a, b"behind it")
    story.wait_for(story.a, b"behind it")
    assert story.write(dead, story.a, b"late") is E.INVALID_PRODUCER_EPOCH
    refused = (E.PRODUCER_FENCED, E.INVALID_TXN_STATE)
    # Its marker is there; that the transaction is over, the coordinator may still be writing down.
    assert story.patiently(story.end, dead, committed=True) in refused
