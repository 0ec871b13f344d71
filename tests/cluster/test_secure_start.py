"""`tailrace start --secure` and its clients: Kafka's, HTTP, gRPC; what others may not."""

import base64
import json
import re
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import pytest
from confluent_kafka import Consumer, KafkaError, Producer

from tailrace.protocol.proxy.common_pb2 import SUCCESS
from tailrace.protocol.proxy.methods import WRITE_PROXY
from tailrace.protocol.proxy.write_proxy_pb2 import StreamRequest, WriteRequest, WriteResponse
from tests.ports import free_port
from tests.process import TailraceProcess

WITHIN_S = 30
PORTS = (
    *("--set", "admin.http.enable=true", "--set", "admin.http.port=0"),
    *("--set", "proxy.enable=true", "--set", "proxy.listener=127.0.0.1:0"),
)


@pytest.fixture
def broker(broker_factory: Callable[..., TailraceProcess]) -> TailraceProcess:
    return broker_factory("--secure", *PORTS).start(f"SASL_SSL://127.0.0.1:{free_port()}")


def properties(text: str) -> dict[str, str]:
    pairs = (line.partition("=") for line in text.splitlines() if "=" in line)
    return {key: value for key, _, value in pairs}


def written(data: Path) -> dict[str, str]:
    """Return what clients of librdkafka are given."""
    return properties((data / "security" / "librdkafka.properties").read_text())


def client(broker: TailraceProcess, **others: str) -> dict[str, Any]:
    settings = {**written(broker.data), "bootstrap.servers": broker.bootstrap, **others}
    return {**settings, "log_level": 0}


def end_of(settings: dict[str, Any]) -> int:
    """Return the first error of a client that may not come in."""
    errors: list[KafkaError] = []
    producer = Producer({**settings, "error_cb": errors.append})
    for _ in range(WITHIN_S):
        if errors:
            return errors[0].code()
        producer.poll(1)
    raise AssertionError("it came in, or nothing happened")


def to_and_fro(settings: dict[str, Any], topic: str) -> bytes | None:
    producer = Producer(settings)
    producer.produce(topic, topic.encode())
    assert producer.flush(WITHIN_S) == 0
    consumer = Consumer({**settings, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    try:
        (message,) = consumer.consume(1, WITHIN_S)
        return message.value()
    finally:
        consumer.close()


def test_what_is_printed_gets_in_and_nothing_else_does(broker: TailraceProcess) -> None:
    told, _, _ = broker.output.partition("ready:")
    printed = properties(told.partition("librdkafka.properties")[2].partition("#")[0])
    assert printed == written(broker.data)
    assert to_and_fro(client(broker), "t") == b"t"
    authentication = KafkaError._AUTHENTICATION
    assert end_of(client(broker, **{"sasl.password": "wrong"})) == authentication
    trusting_others = client(broker)
    del trusting_others["ssl.ca.location"]
    assert end_of(trusting_others) == KafkaError._SSL


def test_a_later_start_has_the_same_and_prints_nothing_of_it(broker: TailraceProcess) -> None:
    settings = client(broker)
    password = settings["sasl.password"]
    assert broker.output.count(password) == 2
    assert to_and_fro(settings, "a") == b"a"
    broker.kill()
    listen = f"SASL_SSL://{broker.bootstrap}"
    broker.start(listen)
    assert broker.output.count(password) == 2, "and not in the log either"
    assert to_and_fro(settings, "b") == b"b"


def _asked(broker: TailraceProcess, path: str, user: tuple[str, str] | None) -> int:
    (at,) = re.findall(r"^admin: https=(\S+)$", broker.output, re.MULTILINE)
    request = urllib.request.Request(f"https://{at}{path}")
    if user is not None:
        text = base64.b64encode(":".join(user).encode()).decode()
        request.add_header("Authorization", f"Basic {text}")
    trusting = ssl.create_default_context(cafile=broker.data / "security" / "ca.pem")
    try:
        with urllib.request.urlopen(request, timeout=WITHIN_S, context=trusting) as answer:
            json.load(answer)
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code


def test_http_and_grpc_know_the_same_users(broker: TailraceProcess) -> None:
    settings = client(broker)
    admin = ("admin", str(settings["sasl.password"]))
    assert to_and_fro(settings, "t") == b"t"
    assert _asked(broker, "/health", None) == 200
    for path, status in (("/cleaner", 200), ("/topics/t/latest", 200), ("/topics/u/latest", 404)):
        assert _asked(broker, path, admin) == status
        assert _asked(broker, path, None) == _asked(broker, path, ("admin", "wrong")) == 401

    (at,) = re.findall(r"^proxy: grpc=(\S+)$", broker.output, re.MULTILINE)
    trusted = (broker.data / "security" / "ca.pem").read_bytes()
    with grpc.secure_channel(at, grpc.ssl_channel_credentials(trusted)) as channel:

        def call(method: str, request: Any, password: str | None) -> Any:
            ask = channel.unary_unary(WRITE_PROXY.methods[method].path)
            text = base64.b64encode(f"admin:{password}".encode()).decode()
            metadata = () if password is None else (("authorization", f"Basic {text}"),)
            found = ask(request.SerializeToString(), metadata=metadata, timeout=WITHIN_S)
            return WriteResponse.FromString(found).header.code

        assert call("create", StreamRequest(stream="s"), admin[1]) == SUCCESS
        assert call("write", WriteRequest(stream="s", payload=b"x"), admin[1]) == SUCCESS
        for password in (None, "wrong"):
            with pytest.raises(grpc.RpcError) as ended:
                call("write", WriteRequest(stream="s", payload=b"x"), password)
            assert ended.value.code() is grpc.StatusCode.UNAUTHENTICATED  # type: ignore[attr-defined]
