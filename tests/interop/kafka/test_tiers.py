"""Where the tiers of a topic meet, as Kafka's own tool asks: after every step of retention."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.cli import output
from tests.interop.kafka.tools import Tools
from tests.java.peers import JavaClient
from tests.process import TailraceProcess

pytestmark = [pytest.mark.interop, pytest.mark.java]

CHUNK = 1500
SEGMENTS = 4
LINE = b"%06d " + b"x" * 1000 + b"\n"
SETTINGS = (
    "--set", "log.retention.check.interval.ms=300",
    "--set", "log.segment.delete.delay.ms=0",
    "--set", "log.level=info",
)  # fmt: skip


@pytest.fixture
def tiered(tmp_path: Path) -> Iterator[TailraceProcess]:
    cold = ("--set", f"cold.storage.url={tmp_path / 'cold'}")
    with TailraceProcess(tmp_path / "data", *SETTINGS, *cold) as broker:
        yield broker


def test_local_and_tiered_offsets_follow_retention(
    tiered: TailraceProcess, kafka_4: JavaClient, topic: str
) -> None:
    tools, at = Tools(kafka_4, tiered), tiered.bootstrap

    def offsets() -> tuple[int, ...]:
        """Earliest, earliest local, latest tiered, latest."""
        asked = ("earliest", "earliest-local", "latest-tiered", "latest")
        found = (tools("get-offsets", "--topic", topic, "--time", time) for time in asked)
        return tuple(int(each.out.strip().rpartition(":")[2] or -1) for each in found)

    def change(*configs: str) -> None:
        tools("configs", "--alter", "--topic", topic, "--add-config", ",".join(configs))

    config = ("segment.bytes=1048576", "retention.ms=-1")
    output("topic", "create", topic, *(w for c in config for w in ("-c", c)), bootstrap=at)
    for first in range(0, SEGMENTS * CHUNK, CHUNK):  # each fills a segment, which the next one ends
        lines = b"".join(LINE % number for number in range(first, first + CHUNK))
        output("produce", topic, "-q", stdin=lines, bootstrap=at)
    end = SEGMENTS * CHUNK + 1
    output("produce", topic, "-q", stdin=LINE % (end - 1), bootstrap=at)
    assert offsets() == (0, 0, -1, end), "one tier"

    change("remote.storage.enable=true", "local.retention.ms=-2")
    tiered.wait_for("cold_copied")
    start, local, latest_tiered, _ = offsets()
    assert (start, local) == (0, 0), "both tiers have what was copied"
    assert 0 < latest_tiered < end - 1, "the segment in progress is on the bookies only"

    change("local.retention.bytes=1")
    tiered.wait_for("segments released")  # but the last completed one: offsets go on from it
    found = offsets()
    assert (found[0], *found[2:]) == (0, end - 2, end), "read from cold storage"
    assert 0 < found[1] <= found[2], "the last completed segment is in both tiers"

    tools("delete-records", "--offset-json-file", delete_before(tiered.data, topic, 100))
    assert offsets() == (100, *found[1:]), "in the middle of a cold segment"

    change("remote.storage.enable=false")
    assert offsets() == (100, *found[1:]), "what is in cold storage stays there, and is read"
    assert output("consume", topic, "-q", "-o", "100", "-c", "1", bootstrap=at).startswith(
        b"000100"
    )


def delete_before(folder: Path, topic: str, offset: int) -> str:
    path = folder.parent / "offsets.json"
    wanted = {"topic": topic, "partition": 0, "offset": offset}
    path.write_text(json.dumps({"version": 1, "partitions": [wanted]}))
    return str(path)
