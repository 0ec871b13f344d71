"""Spark's source and sink at a broker that speaks TLS and asks who they are: one file for both."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

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

FILES: Final = {
    "SASL_SSL": (
        "ssl.truststore.location={authority}\n"
        "sasl.mechanism=SCRAM-SHA-512\n"
        "sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required "
        'username="alice" password="open, sesame";\n'
    ),
    "SSL": (
        "ssl.truststore.location={authority}\n"
        "ssl.keystore.type=PKCS12\n"
        "ssl.keystore.location={store}\n"
        "ssl.keystore.password=open, sesame\n"
    ),
}
"""By a password, and by a certificate, which that listener wants."""


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, tuple[str, Path]]]:
    """Return by protocol the address of a listener, and a file that gets in."""
    folder = tmp_path_factory.mktemp("secured")
    authority = Authority(folder / "keys")
    store = authority.pkcs12("alice", "open, sesame")
    given = (
        f"ssl.keystore.location={authority.store('broker', '127.0.0.1')}",
        f"ssl.truststore.location={authority.certificate}",
        "listener.name.ssl.ssl.client.auth=required",
    )
    at = {name: f"127.0.0.1:{free_port()}" for name in FILES}
    listeners = ",".join(f"{name}://{address}" for name, address in at.items())
    broker = TailraceProcess(folder / "data", *(part for each in given for part in ("--set", each)))
    try:
        broker.start(f"PLAINTEXT://127.0.0.1:{free_port()},{listeners}")
        credential = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        wanted = UserScramCredentialUpsertion("alice", credential, b"open, sesame")
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        admin.alter_user_scram_credentials([wanted])["alice"].result(30)
        files = {name: folder / f"{name}.properties" for name in FILES}
        for name, file in files.items():
            text = FILES[name].format(authority=authority.certificate, store=store)
            file.write_text(f"security.protocol={name}\n{text}")
        yield {name: (at[name], files[name]) for name in FILES}
    finally:
        broker.close()


@pytest.mark.parametrize("protocol", FILES)
def test_records_go_and_come_by_one_file(
    spark: SparkSession, secured: dict[str, tuple[str, Path]], protocol: str
) -> None:
    at, file = secured[protocol]
    options, topic = kafka_options(file), f"greetings-{protocol}"
    write_topic(spark.createDataFrame([("hello",)], ["value"]), at, topic, options)
    records = read_batch(spark, TopicSource(bootstrap=at, topics=topic, options=options))
    assert [bytes(row.value) for row in records.collect()] == [b"hello"]
    assert stable_ranges(at, topic, 30, file) == {0: StableRange(0, 1)}
