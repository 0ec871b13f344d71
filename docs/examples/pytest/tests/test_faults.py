"""What the broker does wrong on purpose; each fault ends with its test at the latest."""

import json

import pytest
from confluent_kafka import Producer
from orders import NotTaken, place, placed

from tailrace.testing import Broker


def test_an_order_whose_answer_is_lost_is_placed_once(
    tailrace: Broker, tailrace_topic: str
) -> None:
    place(tailrace.bootstrap, tailrace_topic, {"id": "a"})
    lost = tailrace.drop_next("Produce")  # it takes effect, but its answer never comes
    place(tailrace.bootstrap, tailrace_topic, {"id": "b"})
    assert lost.hits == 1
    place(tailrace.bootstrap, tailrace_topic, {"id": "c"})
    found = placed(tailrace.bootstrap, tailrace_topic, 3)
    assert sorted(order["id"] for order in found) == ["a", "b", "c"]  # of several partitions


def test_an_order_that_is_refused_is_known_to_be(tailrace: Broker, tailrace_topic: str) -> None:
    tailrace.fail_next("Produce", "MESSAGE_TOO_LARGE", topic=tailrace_topic)
    with pytest.raises(NotTaken, match="too large"):
        place(tailrace.bootstrap, tailrace_topic, {"id": "a"})


def test_a_full_disk_is_noticed_and_got_over(tailrace: Broker, tailrace_topic: str) -> None:
    with tailrace.fill_disk(), pytest.raises(NotTaken):
        place(tailrace.bootstrap, tailrace_topic, {"id": "a"}, timeout_s=1.0)
    place(tailrace.bootstrap, tailrace_topic, {"id": "b"})


def test_acknowledged_orders_outlive_what_was_not_synced(
    tailrace: Broker, tailrace_topic: str
) -> None:
    place(tailrace.bootstrap, tailrace_topic, {"id": "a"})
    tailrace.lose_unsynced()
    tailrace.start()
    assert placed(tailrace.bootstrap, tailrace_topic, 1) == [{"id": "a"}]


def test_a_transaction_that_times_out_is_not_seen(tailrace: Broker, tailrace_topic: str) -> None:
    producer = Producer({"bootstrap.servers": tailrace.bootstrap, "transactional.id": "orders"})
    producer.init_transactions(10)
    producer.begin_transaction()
    producer.produce(tailrace_topic, json.dumps({"id": "a"}).encode())
    producer.flush()
    tailrace.abort_transaction("orders")  # as its timeout would, but now
    place(tailrace.bootstrap, tailrace_topic, {"id": "b"})
    assert placed(tailrace.bootstrap, tailrace_topic, 1) == [{"id": "b"}]
