"""kafka-configs on SCRAM users, and Kafka's console clients as those users."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.certificates import Authority
from tests.interop.kafka.tools import Tools
from tests.java.peers import JavaClient
from tests.process import TailraceProcess
from tests.sasl_broker import MECHANISMS, SaslBroker, java_properties

pytestmark = [pytest.mark.interop, pytest.mark.java]

USERS = ["--entity-type", "users"]


@pytest.fixture(scope="module")
def sasl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SaslBroker]:
    folder = tmp_path_factory.mktemp("sasl")
    authority = Authority(folder / "keys")
    process = TailraceProcess(folder / "data", *SaslBroker.arguments(authority))
    yield SaslBroker(process, authority).start()
    process.close()


def test_users_come_and_go(kafka_4: JavaClient, sasl: SaslBroker) -> None:
    tools = Tools(kafka_4, sasl.process)
    dora = [*USERS, "--entity-name", "dora"]
    tools("configs", "--alter", *dora, "--add-config", "SCRAM-SHA-256=[password=dora-secret]")
    tools("configs", "--alter", *dora, "--add-config",
          "SCRAM-SHA-512=[iterations=8192,password=dora-secret]")  # fmt: skip
    described = tools("configs", "--describe", *dora).out
    assert "SCRAM credential configs for user-principal 'dora'" in described
    assert "SCRAM-SHA-256=iterations=4096" in described
    assert "SCRAM-SHA-512=iterations=8192" in described
    assert "'dora'" in tools("configs", "--describe", *USERS).out
    tools("configs", "--alter", *dora, "--delete-config", "SCRAM-SHA-256")
    assert "SCRAM-SHA-256" not in tools("configs", "--describe", *dora).out
    weak = tools.run("configs", "--alter", *dora, "--add-config",
                     "SCRAM-SHA-256=[iterations=100,password=x]")  # fmt: skip
    assert weak.code == 1
    tools("configs", "--alter", *dora, "--delete-config", "SCRAM-SHA-512")
    assert "SCRAM" not in tools("configs", "--describe", *dora).out


@pytest.mark.parametrize("tls", [False, True])
def test_kafkas_own_clients_log_in(
    kafka_4: JavaClient, sasl: SaslBroker, tmp_path: Path, *, tls: bool
) -> None:
    sasl.create()
    tools = Tools(kafka_4, sasl.process, sasl.at(tls=tls))
    for mechanism in MECHANISMS:
        right = java_properties(sasl.java(mechanism, tls=tls), tmp_path / "right")
        topics = ["topics", "--command-config", str(right)]
        tools(*topics, "--create", "--topic", f"of-{mechanism}-{tls}", "--partitions", "1")
        assert f"of-{mechanism}-{tls}" in tools(*topics, "--list").out
        settings = sasl.java(mechanism, password="wrong", tls=tls)
        wrong = java_properties(settings, tmp_path / "wrong")
        refused = tools.run("topics", "--list", "--command-config", str(wrong))
        assert refused.code == 1
        assert "Authentication failed" in refused.out
