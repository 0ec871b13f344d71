"""kafka-configs on quotas of users, clients and addresses."""

import pytest

from tests.interop.kafka.tools import Tools

pytestmark = [pytest.mark.interop, pytest.mark.java]


def test_quotas(tools: Tools) -> None:
    """The bounds are never reached: the other tests of this folder use the same broker."""
    user, client = ["--entity-type", "users"], ["--entity-type", "clients"]
    rates = "producer_byte_rate=1000000000,consumer_byte_rate=2000000000"
    both = [*user, "--entity-name", "ANONYMOUS", *client, "--entity-name", "the-app"]
    tools("configs", "--alter", *both, "--add-config", rates)
    described = tools("configs", "--describe", *both).out
    assert "Quota configs for user-principal 'ANONYMOUS', client-id 'the-app'" in described
    assert "producer_byte_rate=1.0E9" in described
    assert "consumer_byte_rate=2.0E9" in described
    tools("configs", "--alter", *client, "--entity-default", "--add-config",
          "request_percentage=10000,controller_mutation_rate=100000")  # fmt: skip
    default = tools("configs", "--describe", *client, "--entity-default").out
    assert "the default client-id" in default
    assert "controller_mutation_rate=100000.0" in default
    everything = tools("configs", "--describe", *user, *client).out
    assert "client-id 'the-app'" in everything
    tools("configs", "--alter", *both, "--delete-config", "producer_byte_rate,consumer_byte_rate")
    assert "the-app" not in tools("configs", "--describe", *both).out
    tools("configs", "--alter", *client, "--entity-default", "--delete-config",
          "request_percentage,controller_mutation_rate")  # fmt: skip


def test_quotas_of_addresses(tools: Tools) -> None:
    address = ["--entity-type", "ips", "--entity-name", "127.0.0.9"]
    tools("configs", "--alter", *address, "--add-config", "connection_creation_rate=50")
    described = tools("configs", "--describe", *address).out
    assert "Quota configs for ip '127.0.0.9' are connection_creation_rate=50.0" in described
    tools("configs", "--alter", *address, "--delete-config", "connection_creation_rate")
    assert "connection_creation_rate" not in tools("configs", "--describe", *address).out


def test_a_value_that_is_none_is_refused(tools: Tools) -> None:
    done = tools.run("configs", "--alter", "--entity-type", "clients", "--entity-name", "x",
                     "--add-config", "request_percentage=-1")  # fmt: skip
    assert (done.code, "must be greater than 0" in done.err) == (1, True)
