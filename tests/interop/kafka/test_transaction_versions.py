"""Which transaction version Kafka's Java clients agree on with us: 2 since 4.0, none before."""

import pytest

from tests.cluster.cli import parsed
from tests.interop.kafka.clients import Kafka
from tests.java.peers import JavaClient
from tests.process import TailraceProcess

pytestmark = [pytest.mark.interop, pytest.mark.java]


def test_every_end_raises_the_epoch_of_clients_that_know_it(
    kafka: JavaClient, broker: TailraceProcess, topic: str, request: pytest.FixtureRequest
) -> None:
    clients = Kafka(kafka, broker)
    clients.admin("topics.create", topic=topic, partitions=2)
    with clients.producer(**{"transactional.id": topic}) as producer:
        producer("init")
        for end in ("commit", "abort", "abort", "commit"):  # each follows the other at once
            producer("begin")
            producer.send(topic, [end], partition=0)
            producer.send(topic, [end], partition=1)
            producer(end)
        producer("begin")
        producer("abort")  # nothing was sent: the client asks for nothing
    (found,) = parsed("txn", "describe", topic, bootstrap=broker.bootstrap)
    knows = "kafka_4" in request.node.name
    assert found["producer_epoch"] == (4 if knows else 0)
    assert found["state"] == "CompleteCommit"
