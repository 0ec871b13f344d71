"""Spark's source and sink at a broker that speaks TLS and asks who they are: one file for both."""

from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from pyspark.sql import SparkSession

from tailrace.pipeline.stable_range import StableRange, stable_ranges
from tailrace.spark import TopicSource, kafka_options, read_batch, write_topic
from tests.certificates import Authority
from tests.ports import free_port
from tests.process import TailraceProcess


@pytest.fixture
def secured(broker_factory: Callable[..., TailraceProcess], tmp_path: Path) -> tuple[str, Path]:
    """Return the address of a broker, and a file that gets in."""
    authority = Authority(tmp_path / "keys")
    store = authority.store("broker", "127.0.0.1")
    broker = broker_factory("--set", f"ssl.keystore.location={store}")
    at = f"127.0.0.1:{free_port()}"
    broker.start(f"PLAINTEXT://127.0.0.1:{free_port()},SASL_SSL://{at}")
    credential = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
    wanted = UserScramCredentialUpsertion("alice", credential, b"open, sesame")
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.alter_user_scram_credentials([wanted])["alice"].result(30)
    file = tmp_path / "client.properties"
    file.write_text(
        "security.protocol=SASL_SSL\n"
        f"ssl.truststore.location={authority.certificate}\n"
        "sasl.mechanism=SCRAM-SHA-512\n"
        "sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required "
        'username="alice" password="open, sesame";\n'
    )
    return at, file


def test_records_go_and_come_by_one_file(spark: SparkSession, secured: tuple[str, Path]) -> None:
    at, file = secured
    options = kafka_options(file)
    write_topic(spark.createDataFrame([("hello",)], ["value"]), at, "greetings", options)
    records = read_batch(spark, TopicSource(bootstrap=at, topics="greetings", options=options))
    assert [bytes(row.value) for row in records.collect()] == [b"hello"]
    assert stable_ranges(at, "greetings", 30, file) == {0: StableRange(0, 1)}
