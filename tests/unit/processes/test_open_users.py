"""What the settings of a broker of a cluster amount to together."""

import pytest

from tailrace.core.runtime.config import Assignment, load
from tailrace.processes.broker_config import BrokerProcessConfig

SASL = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:9092,PLAINTEXT://127.0.0.1:9093",
    "inter.broker.listener.name": "PLAINTEXT",
    "sasl.enabled.mechanisms": "SCRAM-SHA-256",
}
OWNED = {
    "zookeeper.set.acl": "true",
    "zookeeper.auth.username": "tailrace",
    "zookeeper.auth.password": "x",
}


@pytest.mark.parametrize(
    ("given", "is_open"), [({}, False), (SASL, True), (SASL | OWNED, False), (OWNED, False)]
)
def test_users_that_everybody_can_change_are_told_of(given: dict[str, str], is_open: bool) -> None:
    assignments = [Assignment(key, value, "test") for key, value in given.items()]
    assert load(BrokerProcessConfig, assignments).config.leaves_users_open is is_open
