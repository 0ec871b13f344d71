"""Apache's client on this project's bookies, in both protocols."""

import pytest

from tailrace.protocol.bookkeeper.entry import HEADER_SIZE, MAX_ENTRY_BYTES
from tests.interop.bookkeeper.java import create
from tests.interop.bookkeeper.ours import OurBookie
from tests.interop.bookkeeper.payloads import shown
from tests.java.peers import JavaClient, JavaError

pytestmark = [
    pytest.mark.interop,
    pytest.mark.java,
    pytest.mark.usefixtures("our_bookies"),
]
WHOLE = {"e": 3, "qw": 3, "qa": 2}
STRIPED = {"e": 3, "qw": 2, "qa": 2}
FENCED, NO_LEDGER, NO_ENTRY, READ, UNAUTHORIZED = -101, -7, -13, -1, -102
PROTOCOLS = ["v3", "v2"]


@pytest.fixture(params=PROTOCOLS)
def client(request: pytest.FixtureRequest) -> str:
    name: str = request.getfixturevalue(request.param)
    return name


@pytest.mark.parametrize("digest", ["CRC32", "CRC32C", "MAC", "DUMMY"])
def test_a_ledgers_life(java: JavaClient, client: str, digest: str) -> None:
    how = {"client": client, "digest": digest, "password": "secret"}
    made = create(java, **how, **WHOLE, custom={"application": "test"})
    ledger, writer = made["ledger"], made["handle"]
    assert java.call("add", handle=writer, seed=1, size=100, count=50)["last"] == 49

    reader = java.call("open", **how, ledger=ledger, recovery=False)
    assert -1 <= reader["lac"] <= 49
    found = java.call("read_unconfirmed", handle=reader["handle"], first=0, last=49)
    assert found["entries"] == shown(1, 0, 49, 100)
    assert java.call("try_read_lac", handle=reader["handle"])["lac"] <= 49
    java.call("add", handle=writer, seed=1, size=100, count=1, one_by_one=True)
    assert java.call("read_lac", handle=reader["handle"])["lac"] == 49

    java.call("close", handle=writer)
    closed = java.call("open", **how, ledger=ledger, recovery=True)
    assert (closed["lac"], closed["length"], closed["closed"]) == (50, 5100, True)
    found = java.call("read", handle=closed["handle"], first=0, last=50)
    assert found["entries"] == shown(1, 0, 50, 100)

    metadata = java.call("metadata", client=client, ledger=ledger)
    assert metadata["digest"] == digest
    assert metadata["custom"] == {"application": "test"}
    assert ledger in java.call("list", client=client)["ledgers"]
    java.call("delete", client=client, ledger=ledger)
    assert ledger not in java.call("list", client=client)["ledgers"]
    with pytest.raises(JavaError):
        java.call("open", **how, ledger=ledger, recovery=True)


def test_entries_are_on_the_bookies_that_striping_names(
    java: JavaClient, client: str, v3: str, our_bookies: list[OurBookie]
) -> None:
    made = create(java, client=client, **STRIPED)
    java.call("add", handle=made["handle"], seed=2, size=50, count=20)
    java.call("close", handle=made["handle"])
    ensemble = java.call("metadata", client=client, ledger=made["ledger"])["ensembles"]["0"]
    assert sorted(ensemble) == sorted(bookie.bookie_id for bookie in our_bookies)
    for index, bookie in enumerate(ensemble):  # Java's v2 clients cannot ask for lists
        found = java.call("list_entries", client=v3, bookie=bookie, ledger=made["ledger"], last=30)
        assert found["entries"] == [entry for entry in range(20) if (index - entry) % 3 < 2]
    reader = java.call("open", client=client, ledger=made["ledger"], recovery=True)
    found = java.call("read", handle=reader["handle"], first=0, last=19)
    assert found["entries"] == shown(2, 0, 19, 50)


def test_the_largest_entry(java: JavaClient, client: str) -> None:
    size = MAX_ENTRY_BYTES - HEADER_SIZE - 4
    made = create(java, client=client, **WHOLE)
    assert java.call("add", handle=made["handle"], seed=3, size=size, count=2)["confirmed"] == 2
    java.call("close", handle=made["handle"])
    reader = java.call("open", client=client, ledger=made["ledger"], recovery=True)
    found = java.call("read", handle=reader["handle"], first=0, last=1)
    assert found["entries"] == shown(3, 0, 1, size)


def test_recovery_fences_the_writer(java: JavaClient, client: str) -> None:
    made = create(java, client=client, **STRIPED)
    java.call("add", handle=made["handle"], seed=4, size=100, count=30)
    second = java.call("open", client=client, ledger=made["ledger"], recovery=True)
    assert (second["lac"], second["length"], second["closed"]) == (29, 3000, True)
    with pytest.raises(JavaError) as fenced:
        java.call("add", handle=made["handle"], seed=4, size=100, count=1)
    assert fenced.value.code == FENCED
    found = java.call("read", handle=second["handle"], first=0, last=29)
    assert found["entries"] == shown(4, 0, 29, 100)


def test_a_second_client_recovers_while_the_first_writes(java: JavaClient, client: str) -> None:
    made = create(java, client=client, **STRIPED)
    java.call("add", handle=made["handle"], seed=5, size=100, count=10)
    burst = java.start("add", handle=made["handle"], seed=5, size=100, count=6_000)
    second = java.call("open", client=client, ledger=made["ledger"], recovery=True)
    with pytest.raises(JavaError) as fenced:
        burst.result(60)
    assert fenced.value.code == FENCED
    assert second["lac"] + 1 >= 10 + fenced.value.answer["confirmed"]
    last = second["lac"]
    found = java.call("read", handle=second["handle"], first=0, last=last)
    assert found["entries"] == shown(5, 0, last, 100)
    assert second["length"] == (last + 1) * 100


def test_a_wrong_password(java: JavaClient, client: str) -> None:
    made = create(java, client=client, **WHOLE, password="right")
    java.call("add", handle=made["handle"], seed=6, size=10, count=1)
    with pytest.raises(JavaError) as refused:
        java.call("open", client=client, ledger=made["ledger"], recovery=True, password="wrong")
    assert refused.value.code == UNAUTHORIZED
    java.call("add", handle=made["handle"], seed=6, size=10, count=1)  # it was not fenced


def test_reads_of_what_is_not_there(java: JavaClient, client: str) -> None:
    made = create(java, client=client, **WHOLE)
    java.call("add", handle=made["handle"], seed=7, size=10, count=2)
    reader = java.call("open", client=client, ledger=made["ledger"], recovery=False)
    with pytest.raises(JavaError) as missing:
        java.call("read_unconfirmed", handle=reader["handle"], first=2, last=2)
    assert missing.value.code == NO_ENTRY
    empty = create(java, client=client, **WHOLE)
    reader = java.call("open", client=client, ledger=empty["ledger"], recovery=False)
    assert reader["lac"] == -1
    with pytest.raises(JavaError) as missing:
        java.call("read_unconfirmed", handle=reader["handle"], first=0, last=0)
    assert missing.value.code in (NO_LEDGER, NO_ENTRY)
    recovered = java.call("open", client=client, ledger=empty["ledger"], recovery=True)
    assert (recovered["lac"], recovered["length"]) == (-1, 0)
    with pytest.raises(JavaError) as fenced:
        java.call("add", handle=empty["handle"], seed=7, size=10, count=1)
    assert fenced.value.code == FENCED


def test_entries_in_any_order(java: JavaClient, client: str) -> None:
    ledger = 7_000_000_000 + PROTOCOLS.index(client)
    made = java.call("create_adv", client=client, **STRIPED, ledger=ledger)
    order = [3, 1, 0, 2, 7, 5, 6, 4]
    done = java.call("add_adv", handle=made["handle"], entries=order, seed=8, size=64)
    assert done["confirmed"] == 8
    java.call("close", handle=made["handle"])
    reader = java.call("open", client=client, ledger=ledger, recovery=True)
    assert reader["lac"] == 7
    found = java.call("read", handle=reader["handle"], first=0, last=7)
    ids_and_bytes = [(entry[0], entry[3]) for entry in found["entries"]]
    assert ids_and_bytes == [(entry[0], entry[3]) for entry in shown(8, 0, 7, 64)]


# Java's v2 clients do not wait for news: their answers carry no LAC.


def test_a_long_poll_is_answered_by_the_next_add(java: JavaClient, v3: str) -> None:
    made = create(java, client=v3, **WHOLE)
    writer = made["handle"]
    java.call("add", handle=writer, seed=9, size=10, count=1)
    reader = java.call("open", client=v3, ledger=made["ledger"], recovery=False)["handle"]
    for entry in range(6):
        poll = java.start("long_poll", handle=reader, entry=entry, timeout_ms=4_000)
        java.call("add", handle=writer, seed=9, size=10, count=1)  # its LAC is `entry`
        news = poll.result(60)
        assert (news["lac"], news["entry"]) == (entry, shown(9, entry, entry, 10)[0])


@pytest.mark.parametrize("parallel", [False, True], ids=["in-turn", "parallel"])
def test_a_long_poll_over_a_striped_ledger(java: JavaClient, v3: str, parallel: bool) -> None:
    """Whoever is asked first may not get the next entry, so an answer may be without news."""
    made = create(java, client=v3, **STRIPED)
    writer = made["handle"]
    java.call("add", handle=writer, seed=9, size=10, count=1)
    reader = java.call("open", client=v3, ledger=made["ledger"], recovery=False)["handle"]
    how = {"handle": reader, "timeout_ms": 4_000, "parallel": parallel}
    for entry in range(3):
        poll = java.start("long_poll", **how, entry=entry)
        java.call("add", handle=writer, seed=9, size=10, count=1)  # its LAC is `entry`
        news = poll.result(60)
        for _ in range(10):
            if news["lac"] >= entry:
                break
            news = java.call("long_poll", **how, entry=entry)
        assert news["lac"] == entry
        if "entry" in news:
            assert news["entry"] == shown(9, entry, entry, 10)[0]


def test_a_long_poll_without_news(java: JavaClient, v3: str) -> None:
    made = create(java, client=v3, **STRIPED)
    java.call("add", handle=made["handle"], seed=9, size=10, count=2, one_by_one=True)
    reader = java.call("open", client=v3, ledger=made["ledger"], recovery=False)["handle"]
    news = java.call("long_poll", handle=reader, entry=5, timeout_ms=300)
    assert (news["lac"], "entry" in news) == (0, False)


def test_an_explicit_lac(java: JavaClient, uri: str, client: str) -> None:
    conf = {"explicitLacInterval": 50, "useV2WireProtocol": client == "v2"}
    java.call("connect", client="lac", uri=uri, conf=conf)
    made = create(java, client="lac", **STRIPED)
    java.call("add", handle=made["handle"], seed=10, size=10, count=3, one_by_one=True)
    reader = java.call("open", client=client, ledger=made["ledger"], recovery=False)["handle"]
    lac = -1
    for _ in range(2000):  # until the writer's timer has fired; each is a round trip
        lac = java.call("read_explicit_lac", handle=reader)["lac"]
        if lac == 2:
            break
    assert lac == 2
    assert java.call("read", handle=reader, first=0, last=2)["entries"] == shown(10, 0, 2, 10)
    java.call("disconnect", client="lac")


def test_deferred_sync_and_force(java: JavaClient, v3: str) -> None:
    made = create(java, client=v3, **WHOLE, deferred_sync=True)
    java.call("add", handle=made["handle"], seed=11, size=100, count=20)
    assert java.call("state", handle=made["handle"])["lac"] == -1
    assert java.call("force", handle=made["handle"])["lac"] == 19
    java.call("close", handle=made["handle"])
    reader = java.call("open", client=v3, ledger=made["ledger"], recovery=True)
    found = java.call("read", handle=reader["handle"], first=0, last=19)
    assert found["entries"] == shown(11, 0, 19, 100)


@pytest.mark.parametrize(
    ("count", "size_max", "expected"),
    [(5, 1 << 20, 5), (0, 1 << 20, 40), (100, 1500, 10), (3, 1, 1)],
    ids=["count", "all", "bytes", "first"],
)
def test_batch_reads(java: JavaClient, v2: str, count: int, size_max: int, expected: int) -> None:
    made = create(java, client=v2, e=3, qw=3, qa=2)
    java.call("add", handle=made["handle"], seed=12, size=100, count=40)
    java.call("close", handle=made["handle"])
    reader = java.call("open", client=v2, ledger=made["ledger"], recovery=True)["handle"]
    found = java.call("batch_read", handle=reader, first=0, count=count, bytes=size_max)
    assert found["entries"] == shown(12, 0, expected - 1, 100)


def test_batch_reads_of_v3_clients(java: JavaClient, v3: str) -> None:
    made = create(java, client=v3, **STRIPED)
    java.call("add", handle=made["handle"], seed=13, size=100, count=10)
    java.call("close", handle=made["handle"])
    reader = java.call("open", client=v3, ledger=made["ledger"], recovery=True)["handle"]
    found = java.call("batch_read", handle=reader, first=0, count=5, bytes=1 << 20)
    assert found["entries"] == shown(13, 0, 4, 100)  # single reads: the ledger is striped
