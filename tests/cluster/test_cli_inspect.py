"""`tailrace where` and `tailrace log`: files beside a live broker, and after it ended."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tailrace.protocol.records.batch import read_header
from tailrace.protocol.records.record import iter_records
from tailrace.tools.errors import Exit
from tests.cluster.cli import output, parsed, refusal
from tests.process import TailraceProcess
from tests.server_process import TAILRACE


@pytest.fixture(scope="module")
def filled(broker: TailraceProcess) -> Iterator[TailraceProcess]:
    """Topic `t`: ten batches of ten records, written one after the other."""
    for batch in range(10):
        lines = b"".join(b"k%d:v%d\n" % (n, n) for n in range(batch * 10, batch * 10 + 10))
        output("produce", "t", "-K", ":", "-q", stdin=lines, bootstrap=broker.bootstrap)
    return broker  # type: ignore[return-value]


def where(broker: TailraceProcess, position: str) -> dict[str, Any]:
    found: dict[str, Any] = parsed("where", position, "--data", str(broker.data))
    return found


def dumped(broker: TailraceProcess, *arguments: str) -> list[dict[str, Any]]:
    lines = output("log", "dump", "t/0", "--data", str(broker.data), "--json", *arguments)
    return [json.loads(line) for line in lines.splitlines()]


@pytest.mark.parametrize("offset", [0, 9, 10, 55, 99])
def test_the_batch_is_at_that_place_in_that_file(filled: TailraceProcess, offset: int) -> None:
    found = where(filled, f"t/0@{offset}")
    batch = found["batch"]
    assert batch["base_offset"] <= offset <= batch["last_offset"]
    with Path(found["file"]).open("rb") as file:
        file.seek(found["batch_position"])
        data = file.read(batch["bytes"])
    assert read_header(data).base_offset == batch["base_offset"]
    records = {record.offset: record.value for record in iter_records(data)}
    assert records[offset] == b"v%d" % offset


def test_there_and_back(filled: TailraceProcess) -> None:
    found = where(filled, "t/0@42")
    back = where(filled, f"t/0@dlsn:{found['dlsn']}")
    assert back["offset"] == found["batch"]["base_offset"]
    assert {**back, "offset": 42} == found


def test_the_picture_for_people(filled: TailraceProcess) -> None:
    text = output("where", "t/0@42", "--data", str(filled.data)).decode()
    assert text.startswith("t/0@42\n")
    for word in ("dlsn", "segment", "ledger", "entry", "slot", "bookies", "file"):
        assert word in text


def test_segments(filled: TailraceProcess) -> None:
    (segment,) = parsed("log", "show", "t/0", "--data", str(filled.data))
    assert segment["state"] == "in progress"
    assert (segment["first_offset"], segment["last_offset"], segment["records"]) == (0, 99, 100)
    assert segment["completed"] is None
    table = output("log", "show", "t/0", "--data", str(filled.data)).decode()
    assert table.split()[:3] == ["segment", "state", "ledger"]


def test_bytes_and_headers_are_dumped_as_they_are(filled: TailraceProcess) -> None:
    headers = ("-H", "a=1", "-H", "a=2")
    output("produce", "odd", *headers, stdin=b"\xff\n", bootstrap=filled.bootstrap)
    lines = output("log", "dump", "odd/0", "--data", str(filled.data), "--json", "--records")
    (record,) = [each for each in map(json.loads, lines.splitlines()) if each["kind"] == "record"]
    assert (record["key"], record["value_base64"]) == (None, "/w==")
    assert record["headers"] == [{"name": "a", "value": "1"}, {"name": "a", "value": "2"}]


def test_every_batch_is_dumped_with_its_header(filled: TailraceProcess) -> None:
    batches = [line for line in dumped(filled) if line["kind"] == "batch"]
    assert sum(line["records"] for line in batches) == 100
    assert all("error" not in line for line in batches)
    ends = [line["last_offset"] for line in batches]
    assert ends == sorted(ends)
    assert ends[-1] == 99
    assert dumped(filled, "--from", "95")[0]["last_offset"] >= 95
    assert len(dumped(filled, "-c", "3")) == 3
    assert dumped(filled, "--segment", "99") == []


def test_records_are_dumped_when_asked(filled: TailraceProcess) -> None:
    records = [line for line in dumped(filled, "--records") if line["kind"] == "record"]
    assert [(line["offset"], line["key"], line["value"]) for line in records] == [
        (n, f"k{n}", f"v{n}") for n in range(100)
    ]


@pytest.mark.parametrize(
    ("code", "arguments", "words"),
    [
        (Exit.FAILED, ("where", "t/0@100"), "ends before offset 100"),
        (Exit.FAILED, ("where", "t/9@0"), "no partition 9"),
        (Exit.FAILED, ("where", "nobody/0@0"), "no topic nobody"),
        (Exit.FAILED, ("where", "t/0@dlsn:99,0,0"), "no segment 99"),
        (Exit.FAILED, ("where", "t/0@dlsn:1,9999,0"), "no entry 9999"),
        (Exit.FAILED, ("where", "t/0@dlsn:1,0,0"), "no batch in slot 0"),
        (Exit.FAILED, ("log", "show", "nobody/0"), "no topic nobody"),
        (Exit.USAGE, ("where", "t/0"), "TOPIC/PARTITION@OFFSET"),
        (Exit.USAGE, ("where", "t@0"), "TOPIC/PARTITION"),
        (Exit.USAGE, ("log", "dump", "t"), "TOPIC/PARTITION"),
    ],
)
def test_refusals(
    filled: TailraceProcess, code: Exit, arguments: tuple[str, ...], words: str
) -> None:
    assert words in refusal(code, *arguments, "--data", str(filled.data))


def test_a_directory_without_data(tmp_path: Path) -> None:
    text = refusal(Exit.FAILED, "where", "t/0@0", "--data", str(tmp_path))
    assert "no Tailrace data" in text
    assert "--data" in text


def test_a_completed_segment_says_itself_what_it_holds(
    broker_factory: type[TailraceProcess],
) -> None:
    process = broker_factory().start()
    output("produce", "t", "-q", stdin=b"1\n2\n3\n", bootstrap=process.bootstrap)
    assert process.stop() == 0
    (segment,) = parsed("log", "show", "t/0", "--data", str(process.data))
    assert segment["state"] == "completed"
    assert segment["counted_by"] == "its index"
    assert (segment["first_offset"], segment["last_offset"], segment["records"]) == (0, 2, 3)
    assert segment["completed"].startswith("20")
    kinds = [line["kind"] for line in dumped(process)]
    assert kinds[0] == "snapshot"
    assert kinds[-1] == "index"
    assert where(process, "t/0@2")["segment_state"] == "completed"


def test_damage_is_named_and_the_rest_is_shown(broker_factory: type[TailraceProcess]) -> None:
    process = broker_factory().start()
    for value in (b"one\n", b"two\n", b"three\n"):
        output("produce", "t", "-q", stdin=value, bootstrap=process.bootstrap)
    assert process.stop() == 0
    found = where(process, "t/0@1")
    with Path(found["file"]).open("r+b") as file:
        file.seek(found["batch_position"] + found["batch"]["bytes"] - 2)
        file.write(b"\xff")
    text = refusal(Exit.FAILED, "where", "t/0@1", "--data", str(process.data))
    assert "CorruptData" in text
    lines = dumped(process)
    assert [line["kind"] for line in lines].count("damaged") == 1
    assert {line.get("base_offset") for line in lines if line["kind"] == "batch"} == {0, 2}


def test_a_reader_of_the_dump_who_has_enough_is_no_error(filled: TailraceProcess) -> None:
    dump = [str(TAILRACE), "log", "dump", "t/0", "--records", "--data", str(filled.data)]
    with subprocess.Popen(dump, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert running.stdout is not None
        running.stdout.close()
        assert running.stderr is not None
        assert running.stderr.read() == b""
    assert running.returncode == Exit.OK
