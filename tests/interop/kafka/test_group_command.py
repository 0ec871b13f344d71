"""`tailrace group` against Apache Kafka 4.3.1."""

from collections.abc import Iterator

import pytest

from tests.bench.brokers import KafkaNode, await_port, free_port, kafka_command, running
from tests.cluster.group_command_contract import GroupCommandContract

pytestmark = [pytest.mark.interop, pytest.mark.java]


@pytest.fixture(scope="module")
def kafka_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """One node that lets groups begin at once."""
    own, port = tmp_path_factory.mktemp("kafka-node"), free_port()
    node = KafkaNode(0, port, (free_port(),), "cZ1PqW3uR0qk9o2b7mVxXw")
    at_once = "group.initial.rebalance.delay.ms=0"
    command = kafka_command(node, own, own / "data", at_once, fsync=False, quick=True)
    with running(command, own / "out") as child:
        await_port(child, port, own / "out")
        yield f"127.0.0.1:{port}"


class TestKafkas(GroupCommandContract):
    coordinator = 1

    @pytest.fixture
    def at(self, kafka_node: str) -> str:
        return kafka_node
