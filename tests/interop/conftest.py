"""What all tests with foreign clients share."""

from collections.abc import Iterator

import pytest

from tests.certificates import Authority
from tests.process import TailraceProcess
from tests.sasl_broker import SaslBroker


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
