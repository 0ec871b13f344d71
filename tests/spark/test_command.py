"""`tailrace pipeline` from the command line: a topic into Parquet, and Parquet into a topic."""

import json
import shutil
import subprocess
from pathlib import Path

import pyarrow.parquet
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.process import TailraceProcess
from tests.server_process import TAILRACE

JARS = Path(__file__).resolve().parents[2] / ".cache" / "spark-jars"
_TIMEOUT_S = 180


def _pipeline(*arguments: str) -> subprocess.CompletedProcess[str]:
    if shutil.which("java") is None:
        pytest.skip("java is not installed")
    command = [str(TAILRACE), "pipeline", *arguments, "--master", "local[2]", "--jars", str(JARS)]
    return subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)


def test_ingest_and_sink(broker: TailraceProcess, topic: str, tmp_path: Path) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for number in range(50):
        producer.produce(topic, b"v%d" % number, key=b"k")
    assert producer.flush(30) == 0
    output = tmp_path / "out"
    done = _pipeline("ingest", topic, str(output), "--bootstrap", broker.bootstrap, "--json")
    assert done.returncode == 0, done.stderr
    (written,) = json.loads(done.stdout)
    assert written == {
        "topic": topic,
        "partition": 0,
        "first_offset": 0,
        "last_offset": 49,
        "records": 50,
    }
    assert pyarrow.parquet.read_table(output).num_rows == 50

    copies = f"{topic}-copies"
    done = _pipeline("sink", str(output), copies, "--bootstrap", broker.bootstrap)
    assert done.returncode == 0, done.stderr
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "copies"})
    consumer.assign([TopicPartition(copies, 0, 0)])
    values = {message.value() for message in consumer.consume(50, timeout=30)}
    consumer.close()
    assert values == {b"v%d" % number for number in range(50)}


def test_a_wrong_position_is_refused_before_spark_starts(tmp_path: Path) -> None:
    done = _pipeline("ingest", "t", str(tmp_path / "out"), "--from", "yesterday")
    assert done.returncode == 2
    assert "'yesterday' is no position" in done.stderr
    assert "Traceback" not in done.stderr


def test_what_spark_cannot_do_is_said_without_a_traceback(
    broker: TailraceProcess, topic: str, tmp_path: Path
) -> None:
    output, at = str(tmp_path / "out"), ("--bootstrap", broker.bootstrap)
    done = _pipeline("ingest", f"{topic}-nosuch", output, *at)
    assert done.returncode == 1
    assert "error: " in done.stderr
    assert "UnknownTopicOrPartition" in done.stderr
    assert "Traceback" not in done.stderr
    done = _pipeline("sink", str(tmp_path / "nosuch"), topic, *at)
    assert done.returncode == 1
    assert "error: [PATH_NOT_FOUND]" in done.stderr
    assert "Traceback" not in done.stderr


def test_nobody_listens() -> None:
    for arguments in (("ingest", "t", "out"), ("sink", "files", "t"), ("restore", "t", "out")):
        done = _pipeline(*arguments, "--bootstrap", "127.0.0.1:1")
        assert done.returncode == 3, done.stderr
        assert "Connection refused" in done.stderr
