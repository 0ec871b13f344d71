"""What a command says when nobody answers, or the client is configured wrongly."""

import socket
from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaError, KafkaException

from tailrace.tools.clients.librdkafka import Target, admin, check_reachable, failure, target
from tailrace.tools.errors import CliError, Exit


@pytest.fixture
def port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_one_server_that_listens_is_enough(port: int) -> None:
    check_reachable(Target(f"127.0.0.1:1,127.0.0.1:{port}", {}, 5))


def test_nobody_listens() -> None:
    with pytest.raises(CliError) as error:
        check_reachable(Target("127.0.0.1:1,[::1]:1", {}, 5))
    assert error.value.code is Exit.UNREACHABLE
    assert "127.0.0.1:1: Connection refused" in error.value.cause


def test_properties() -> None:
    assert target("h", ["a.b=c=d", " x = y "], 1).properties == {"a.b": "c=d", "x": "y"}
    with pytest.raises(CliError) as error:
        target("h", ["novalue"], 1)
    assert error.value.code is Exit.USAGE


def test_an_unknown_property_is_a_usage_error(port: int) -> None:
    with pytest.raises(CliError) as error:
        admin(Target(f"127.0.0.1:{port}", {"no.such": "1"}, 5))
    assert error.value.code is Exit.USAGE
    assert "no.such" in error.value.cause


@pytest.mark.parametrize(
    ("code", "exit_code"),
    [
        (KafkaError._TRANSPORT, Exit.UNREACHABLE),
        (KafkaError._TIMED_OUT, Exit.UNREACHABLE),
        (KafkaError.TOPIC_ALREADY_EXISTS, Exit.FAILED),
    ],
)
def test_failures(code: int, exit_code: Exit) -> None:
    error = failure(KafkaException(KafkaError(code, "because")), "do it", Target("h:1", {}, 5))
    assert error.code is exit_code
    assert error.cause.startswith("do it: ")
    assert "because" in error.cause
    assert error.place == "h:1"
