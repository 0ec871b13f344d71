"""What all tests with foreign clients share."""

import gc
import warnings
from collections.abc import Iterator

import pytest

from tests.certificates import Authority
from tests.process import TailraceProcess
from tests.sasl_broker import SaslBroker


@pytest.fixture(autouse=True)
def _collect_what_kafka_python_leaves(
    request: pytest.FixtureRequest, caplog: pytest.LogCaptureFixture
) -> Iterator[None]:
    """Let go of the sockets that kafka-python does not close (those it could not connect) here.

    Else the collector finds them in some other test, which fails: warnings are errors. What it logs
    has errors that hold them.
    """
    yield
    if "kafka_python" in request.node.nodeid:
        caplog.get_records("call").clear()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            gc.collect()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let kafka-python leave sockets open in its own tests."""
    for item in items:
        if "kafka_python" in item.nodeid:
            item.add_marker(pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"))
            item.add_marker(
                pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
            )


@pytest.fixture(scope="session")
def sasl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SaslBroker]:
    """A broker whose clients say who they are; alice is known to it."""
    folder = tmp_path_factory.mktemp("sasl")
    authority = Authority(folder / "keys")
    process = TailraceProcess(folder / "data", *SaslBroker.arguments(authority))
    broker = SaslBroker(process, authority).start()
    broker.create()
    yield broker
    process.close()
