"""With confluent-kafka: one broker for all tests, a topic for each, a broker to break."""

import pytest
from orders import NotTaken, place, placed

from tailrace.testing import Broker


def test_an_order_comes_out_again(tailrace: Broker, tailrace_topic: str) -> None:
    place(tailrace.bootstrap, tailrace_topic, {"id": "a", "items": 3})
    assert placed(tailrace.bootstrap, tailrace_topic, 1) == [{"id": "a", "items": 3}]


@pytest.mark.parametrize("items", [1, 2])
def test_topics_are_not_shared(tailrace: Broker, tailrace_topic: str, items: int) -> None:
    place(tailrace.bootstrap, tailrace_topic, {"id": "a", "items": items})
    assert placed(tailrace.bootstrap, tailrace_topic, 1) == [{"id": "a", "items": items}]


def test_an_acknowledged_order_survives_kill_9(
    tailrace_broker: Broker, tailrace_topic: str
) -> None:
    place(tailrace_broker.bootstrap, tailrace_topic, {"id": "a"})
    tailrace_broker.kill()
    tailrace_broker.start()
    assert placed(tailrace_broker.bootstrap, tailrace_topic, 1) == [{"id": "a"}]


def test_a_broker_that_hangs_is_noticed(tailrace_broker: Broker, tailrace_topic: str) -> None:
    tailrace_broker.pause()
    with pytest.raises(NotTaken):
        place(tailrace_broker.bootstrap, tailrace_topic, {"id": "a"}, timeout_s=1.0)
    tailrace_broker.resume()
    place(tailrace_broker.bootstrap, tailrace_topic, {"id": "b"})
