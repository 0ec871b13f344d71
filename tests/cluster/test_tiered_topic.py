"""A topic in two tiers: clients read it from the beginning, whatever the bookies still have."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tailrace.tools.errors import Exit
from tests.cluster.cli import output, parsed, refusal
from tests.process import TailraceProcess

RECORDS = 6000
CHUNK = 1500
LINE = b"%06d " + b"x" * 1000 + b"\n"
SETTINGS = {
    "log.retention.check.interval.ms": 500,
    "log.segment.delete.delay.ms": 0,
    "log.level": "info",
    "cold.block.bytes": 65536,
}


def start(tmp_path: Path) -> TailraceProcess:
    settings = {**SETTINGS, "cold.storage.url": tmp_path / "cold"}
    arguments = [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
    return TailraceProcess(tmp_path / "data", *arguments).start()


@pytest.fixture
def tiered(tmp_path: Path) -> Iterator[TailraceProcess]:
    """A broker with a topic whose completed segments leave the bookies at once."""
    running = start(tmp_path)
    try:
        output(
            "topic", "create", "t", "-c", "remote.storage.enable=true",
            "-c", "local.retention.bytes=1", "-c", "segment.bytes=1048576",
            bootstrap=running.bootstrap,
        )  # fmt: skip
        for first in range(0, RECORDS, CHUNK):  # each fills a segment, which the next one ends
            lines = b"".join(LINE % number for number in range(first, first + CHUNK))
            output("produce", "t", "-q", stdin=lines, bootstrap=running.bootstrap)
        yield running
    finally:
        running.close()


def read(broker: TailraceProcess, *arguments: str) -> list[int]:
    found = output("consume", "t", "-q", *arguments, bootstrap=broker.bootstrap)
    return [int(line.split()[0]) for line in found.splitlines()]


def objects(tmp_path: Path) -> list[Path]:
    return sorted(each for each in (tmp_path / "cold").rglob("*") if each.is_file())


def test_clients_read_from_both_tiers(tiered: TailraceProcess, tmp_path: Path) -> None:
    tiered.wait_for("segments released")
    tiered.wait_for("purged path")
    assert read(tiered, "-o", "beginning", "-e") == list(range(RECORDS))
    assert read(tiered, "-o", "5", "--until", "9") == [5, 6, 7, 8]
    assert read(tiered, "-o", "@0", "-c", "1") == [0], "by time: the first segment is cold"
    where = ("--namespace", f"sqlite:{tmp_path / 'data' / 'metadata.db'}")
    (row,) = [row for row in parsed("cold", "status", *where) if row["log"] == "t-0"]
    assert row["cold_only"] >= 1
    assert row["details"][0]["on_bookies"] is False
    assert not any(
        row["problem"] for row in parsed("cold", "verify", *where, "-c", str(tmp_path / "cold"))
    )

    data = ("--data", str(tmp_path / "data"))
    assert parsed("log", "show", "t/0", *data)[0]["state"] == "cold storage"
    assert "cold storage only" in refusal(Exit.FAILED, "where", "t/0@5", *data)

    tiered.kill()
    again = start(tmp_path)
    try:
        assert read(again, "-o", "beginning", "-e") == list(range(RECORDS))
        output("topic", "delete", "t", "-y", bootstrap=again.bootstrap)
        again.wait_for("cold_object_deleted")
    finally:
        again.close()
    assert objects(tmp_path) == []


def test_without_cold_storage_a_topic_cannot_have_tiers(broker: TailraceProcess) -> None:
    said = refusal(
        Exit.FAILED, "topic", "create", "u", "-c", "remote.storage.enable=true",
        bootstrap=broker.bootstrap,
    )  # fmt: skip
    assert "cold.storage.url" in said


def test_retention_of_streams_is_refused_for_topics(tmp_path: Path) -> None:
    said = TailraceProcess(tmp_path / "data", "--set", "logSegmentRetentionHours=1").refused()
    assert "retention.ms" in said
