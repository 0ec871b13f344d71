"""The corners of transactions are answered as Apache Kafka 4.3.1 answers them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.raw import RawClient
from tests.cluster.transaction_answers import answers
from tests.process import TailraceProcess

GOLDEN = Path(__file__).parents[1] / "golden" / "transaction-answers.txt"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TailraceProcess]:
    """A broker of its own: the answers are those of one that was just made."""
    with TailraceProcess(tmp_path_factory.mktemp("answers") / "data") as running:
        yield running


def test_answers_are_kafkas(broker: TailraceProcess) -> None:
    expected = [line for line in GOLDEN.read_text().splitlines() if not line.startswith("#")]
    with RawClient(broker) as client:
        assert list(answers(client)) == expected
