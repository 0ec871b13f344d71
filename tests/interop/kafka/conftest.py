"""What the tests with Apache Kafka's own programs share: one broker, one JVM for each version."""

from collections.abc import Iterator

import pytest

from tests.interop.kafka.tools import Tools
from tests.java.peers import JavaClient
from tests.process import TailraceProcess


@pytest.fixture(scope="package")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TailraceProcess]:
    """A broker for all tests of this folder, from the command line."""
    with TailraceProcess(tmp_path_factory.mktemp("broker") / "data") as running:
        yield running


@pytest.fixture(scope="package")
def kafka_4(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaClient]:
    """Kafka 4.3.1 in a JVM: clients, tools."""
    peer = JavaClient(tmp_path_factory.mktemp("kafka-4") / "log", "kafka", "KafkaPeer")
    yield peer
    peer.close()


@pytest.fixture(scope="package")
def kafka_3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaClient]:
    """Kafka's clients 3.9.2 in a JVM."""
    log = tmp_path_factory.mktemp("kafka-3") / "log"
    peer = JavaClient(log, "kafka", "ClientPeer", "clients-3.9")
    yield peer
    peer.close()


@pytest.fixture(params=["kafka_3", "kafka_4"])
def kafka(request: pytest.FixtureRequest) -> JavaClient:
    """Each version in turn."""
    peer: JavaClient = request.getfixturevalue(request.param)
    return peer


@pytest.fixture
def tools(kafka_4: JavaClient, broker: TailraceProcess) -> Tools:
    """Kafka's command-line tools."""
    return Tools(kafka_4, broker)
