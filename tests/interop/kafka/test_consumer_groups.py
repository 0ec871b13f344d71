"""KIP-848 groups of Kafka's own client, 4.3: three members, static ones, expressions, migration."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.interop.kafka.clients import Client, Kafka
from tests.interop.kafka.test_clients import assigned_to_all, numbered
from tests.interop.test_consumer_groups_confluent import QUICK
from tests.java.peers import JavaClient, JavaError
from tests.process import TailraceProcess

pytestmark = [pytest.mark.interop, pytest.mark.java]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TailraceProcess]:
    """A broker whose members hear of changes within a fifth of a second."""
    settings = [word for key, value in QUICK for word in ("--set", f"{key}={value}")]
    with TailraceProcess(tmp_path_factory.mktemp("groups") / "data", *settings) as running:
        yield running


@pytest.fixture
def clients(kafka_4: JavaClient, broker: TailraceProcess) -> Kafka:
    return Kafka(kafka_4, broker)


def new_member(stack: ExitStack, clients: Kafka, topic: str, **config: object) -> Client:
    """Open a consumer that speaks the consumer protocol and reads the topic."""
    options = {"group.id": topic, "group.protocol": "consumer", **config}
    member = stack.enter_context(clients.consumer(**options))
    member("subscribe", topics=[topic])
    return member


@pytest.mark.parametrize("assignor", ["uniform", "range"])
def test_three_members_share_and_one_leaves(clients: Kafka, topic: str, assignor: str) -> None:
    clients.admin("topics.create", topic=topic, partitions=6)
    with ExitStack() as stack:
        made = [
            new_member(stack, clients, topic, **{"group.remote.assignor": assignor})
            for _ in range(2)
        ]
        with ExitStack() as of_the_third:
            made.append(new_member(of_the_third, clients, topic))
            assigned_to_all(made, 6, share=2)
            described = clients.admin("groups.describe", group=topic)
            assert (described["state"], described["assignor"]) == ("Stable", assignor)
            assert len(described["members"]) == 3
        assigned_to_all(made[:2], 6, share=3)


def test_offsets_are_committed_and_resumed(clients: Kafka, topic: str) -> None:
    clients.admin("topics.create", topic=topic, partitions=1)
    with clients.producer() as producer:
        producer.send(topic, numbered(10), partition=0)
    with ExitStack() as stack:
        member = new_member(stack, clients, topic)
        assert member.values(10) == numbered(10)
        member("commit", offsets={f"{topic}-0": 7})
        assert member("committed", partitions=[f"{topic}-0"]) == {f"{topic}-0": 7}
    with ExitStack() as stack:
        again = new_member(stack, clients, topic)
        assert [record["offset"] for record in again.poll(3)] == [7, 8, 9]


def test_a_static_member_comes_back_to_its_partitions(clients: Kafka, topic: str) -> None:
    clients.admin("topics.create", topic=topic, partitions=4)
    with ExitStack() as stack:
        other = new_member(stack, clients, topic, **{"group.instance.id": "other"})
        with ExitStack() as of_the_first:
            first = new_member(of_the_first, clients, topic, **{"group.instance.id": "one"})
            had, _ = assigned_to_all([first, other], 4)
        before = other("assignment")["rebalances"]
        again = new_member(stack, clients, topic, **{"group.instance.id": "one"})
        shares = assigned_to_all([again, other], 4)
        assert shares[0] == had
        assert other("assignment")["rebalances"] == before


def test_topics_by_expression_of_the_broker(clients: Kafka, topic: str) -> None:
    clients.admin("topics.create", topic=f"{topic}-a", partitions=2)
    options = {"group.id": topic, "group.protocol": "consumer", "metadata.max.age.ms": 500}
    with clients.consumer(**options) as member:
        member("subscribe", regex=f"{topic}-[ab]")
        assert assigned_to_all([member], 2) == [[f"{topic}-a-0", f"{topic}-a-1"]]
        clients.admin("topics.create", topic=f"{topic}-b", partitions=1)
        clients.admin("topics.create", topic=f"{topic}-c", partitions=1)
        assert assigned_to_all([member], 3)[0][-1] == f"{topic}-b-0"


def test_an_expression_that_is_none_is_the_clients_error(clients: Kafka, topic: str) -> None:
    options = {"group.id": topic, "group.protocol": "consumer"}
    with clients.consumer(**options) as member:
        member("subscribe", regex="(")
        with pytest.raises(JavaError, match="InvalidRegularExpression"):
            member.poll(1)


def test_a_classic_group_is_upgraded_member_by_member(clients: Kafka, topic: str) -> None:
    clients.admin("topics.create", topic=topic, partitions=4)
    classic = {"group.id": topic, "group.protocol": "classic"}
    with clients.consumer(**classic) as last:
        with ExitStack() as of_the_first:
            first = of_the_first.enter_context(clients.consumer(**classic))
            for member in (first, last):
                member("subscribe", topics=[topic])
            assigned_to_all([first, last], 4, share=2)
            with ExitStack() as of_the_new:
                new = new_member(of_the_new, clients, topic)
                shares = assigned_to_all([first, last, new], 4)
                assert sorted(len(share) for share in shares) == [1, 1, 2]
                of_the_first.close()
                assigned_to_all([last, new], 4, share=2)
        assert len(assigned_to_all([last], 4)[0]) == 4, "and back again"
