"""Who owns a partition: checked against a dumb oracle, and for what operators expect."""

from collections import Counter
from hashlib import blake2b

from hypothesis import given
from hypothesis import strategies as st

from tailrace.broker.cluster.routing import owners_of, readers_of, replicas_of

TOPIC_ID = bytes(range(16))
IDS = st.binary(min_size=16, max_size=16)
LIVE = st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=7, unique=True).map(sorted)
COUNTS = st.integers(1, 60)
LISTS = st.dictionaries(
    st.integers(0, 70), st.lists(st.integers(0, 5), min_size=1, max_size=4, unique=True), max_size=9
)


def oracle(topic_id: bytes, count: int, lists: dict[int, list[int]], live: list[int]) -> list[int]:
    """Say it the slow way: everybody draws for each partition, who is full stands aside."""
    owned: dict[int, list[int]] = {broker: [] for broker in live}
    for partition in range(count):
        draws = []
        for broker in live:
            key = topic_id + partition.to_bytes(4, "big") + broker.to_bytes(4, "big")
            draws.append((blake2b(key, digest_size=8).digest(), broker))
        for _, broker in sorted(draws, reverse=True):
            tried = {**owned, broker: [*owned[broker], partition]}
            if can_end_evenly([len(mine) for mine in tried.values()], count):
                owned = tried
                break
    found = {partition: broker for broker, mine in owned.items() for partition in mine}
    for partition, preferred in lists.items():
        alive = [broker for broker in preferred if broker in live]
        if alive and partition < count:
            found[partition] = alive[0]
    return [found[partition] for partition in range(count)]


def can_end_evenly(shares: list[int], count: int) -> bool:
    """Whether what is left can bring all to shares that differ by one at most."""
    low, more = divmod(count, len(shares))
    return max(shares) <= low + 1 and sum(share > low for share in shares) <= more


@given(IDS, COUNTS, LISTS, LIVE)
def test_owners_are_those_of_the_oracle(
    topic_id: bytes, count: int, lists: dict[int, list[int]], live: list[int]
) -> None:
    assert list(owners_of(topic_id, count, lists, live)) == oracle(topic_id, count, lists, live)


@given(IDS, COUNTS, LIVE)
def test_a_topic_is_spread_evenly(topic_id: bytes, count: int, live: list[int]) -> None:
    owned = Counter(owners_of(topic_id, count, {}, live))
    shares = [owned[broker] for broker in live]
    assert max(shares) - min(shares) <= 1


@given(IDS, COUNTS, LISTS, LIVE, st.integers(0, 59), st.data())
def test_a_reassignment_moves_one_partition_only(
    topic_id: bytes,
    count: int,
    lists: dict[int, list[int]],
    live: list[int],
    partition: int,
    data: st.DataObject,
) -> None:
    partition %= count
    target = data.draw(st.sampled_from(live))
    before = owners_of(topic_id, count, lists, live)
    after = owners_of(topic_id, count, {**lists, partition: [target]}, live)
    assert after[partition] == target
    assert (
        before[:partition] + before[partition + 1 :] == after[:partition] + after[partition + 1 :]
    )


def test_all_releases_agree() -> None:
    """Brokers of two releases run side by side while a cluster is upgraded."""
    assert owners_of(TOPIC_ID, 12, {}, (1, 2, 3)) == (1, 1, 1, 3, 3, 1, 3, 3, 2, 2, 2, 2)


def test_few_partitions_move_when_a_broker_comes_or_goes() -> None:
    moved = 0
    for number in range(100):
        topic_id = number.to_bytes(16, "big")
        before = owners_of(topic_id, 12, {}, (1, 2, 3))
        after = owners_of(topic_id, 12, {}, (1, 2))
        moved += sum(a != b for a, b in zip(before, after, strict=True) if a != 3)
    assert moved < 100 * 12 * 0.2  # all but a third have no reason to


def test_a_list_of_which_nobody_is_alive_counts_as_none() -> None:
    assert owners_of(TOPIC_ID, 1, {0: (7, 8)}, (1, 2)) == owners_of(TOPIC_ID, 1, {}, (1, 2))
    assert owners_of(TOPIC_ID, 1, {0: (7, 2, 1)}, (1, 2)) == (2,)


def test_nobody_alive_owns_nothing() -> None:
    assert owners_of(TOPIC_ID, 3, {}, ()) == ()


def test_replicas_are_the_list_or_the_owner() -> None:
    assert replicas_of(2, (), (1, 2)) == ((2,), (2,))
    assert replicas_of(2, (3, 2, 1), (1, 2)) == ((3, 2, 1), (2, 1))
    assert replicas_of(1, (7, 8), (1, 2)) == ((7, 8, 1), (1,))


RACKS = st.dictionaries(
    st.sampled_from("abc"), st.lists(st.integers(0, 9), min_size=1, max_size=4, unique=True)
)


@given(IDS, st.integers(0, 9), st.lists(st.integers(0, 9), max_size=4, unique=True), RACKS)
def test_in_each_rack_the_first_preferred_broker_reads_or_the_one_that_draws_most(
    topic_id: bytes, partition: int, preferred: list[int], racks: dict[str, list[int]]
) -> None:
    readers = readers_of(topic_id, partition, preferred, racks)
    assert readers.keys() == racks.keys()
    for rack, reader in readers.items():
        listed = [broker for broker in preferred if broker in racks[rack]]
        assert reader in racks[rack]
        assert not listed or reader == listed[0]
        assert readers_of(topic_id, partition, preferred, {rack: racks[rack][::-1]}) == {
            rack: reader
        }


def test_the_brokers_of_a_rack_share_the_partitions_of_a_topic() -> None:
    drawn = Counter(readers_of(TOPIC_ID, at, (), {"a": (1, 2, 3)})["a"] for at in range(300))
    assert set(drawn) == {1, 2, 3}
    assert min(drawn.values()) > 70


def test_of_a_rack_that_loses_a_broker_the_others_keep_their_partitions() -> None:
    for partition in range(60):
        before = readers_of(TOPIC_ID, partition, (), {"a": (1, 2, 3)})["a"]
        after = readers_of(TOPIC_ID, partition, (), {"a": (1, 3)})["a"]
        assert before in (2, after)
