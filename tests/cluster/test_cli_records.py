"""`tailrace produce` and `tailrace consume` against a running broker."""

import json
import signal
import subprocess
from pathlib import Path

import pytest

from tailrace.tools.errors import Exit
from tests.cluster.cli import output, parsed, refusal, tailrace
from tests.cluster.fault_port import FaultPort
from tests.process import TailraceProcess
from tests.server_process import TAILRACE


@pytest.fixture
def at(broker: TailraceProcess) -> str:
    return broker.bootstrap


def consume(at: str, topic: str, *arguments: str) -> bytes:
    return output("consume", topic, "-q", *arguments, bootstrap=at)


@pytest.fixture
def ten(at: str, topic: str) -> str:
    """A topic of one partition with the values 0 to 9."""
    lines = b"".join(b"%d\n" % n for n in range(10))
    output("produce", topic, "-q", stdin=lines, bootstrap=at)
    return topic


@pytest.mark.parametrize(
    ("arguments", "values"),
    [
        (("-e",), range(10)),
        (("-o", "start", "-e"), range(10)),
        (("-o", "beginning", "-c", "3"), range(3)),
        (("-o", "7", "-e"), range(7, 10)),
        (("-o", "-2", "-e"), (8, 9)),
        (("-o", "-99", "-e"), range(10)),
        (("-o", "end", "-e"), ()),
        (("-o", "2", "--until", "5"), range(2, 5)),
        (("-o", "2", "--until", "end"), range(2, 10)),
        (("-o", "@0", "-e"), range(10)),
        (("-o", "@32503680000000", "-e"), ()),
        (("-o", "@2020-01-01", "--until", "@2100-01-01"), range(10)),
        (("-c", "0"), ()),
        (("-p", "0", "-e"), range(10)),
    ],
)
def test_from_anywhere_to_anywhere(
    at: str, ten: str, arguments: tuple[str, ...], values: tuple[int, ...]
) -> None:
    assert [int(v) for v in consume(at, ten, *arguments).split()] == list(values)


def test_formats(at: str, topic: str) -> None:
    output(
        *("produce", topic, "-K", ":", "-H", "a=1", "-H", "b", "-T", "1700000000000", "-q"),
        stdin=b"k1:v1\nplain\n:\n",
        bootstrap=at,
    )
    printed = consume(at, topic, "-e", "-f", r"%t/%p@%o %T %K:%k %S:%s [%h]\n")
    assert printed.decode().splitlines() == [
        f"{topic}/0@0 1700000000000 2:k1 2:v1 [a=1,b=]",
        f"{topic}/0@1 1700000000000 -1: 5:plain [a=1,b=]",
        f"{topic}/0@2 1700000000000 0: 0: [a=1,b=]",
    ]
    assert consume(at, topic, "-c", "1", "-K", "=") == b"k1=v1\n"
    lines = [json.loads(line) for line in consume(at, topic, "-e", "--json").splitlines()]
    assert [line["key"] for line in lines] == ["k1", None, ""]
    assert lines[0]["headers"] == [{"name": "a", "value": "1"}, {"name": "b", "value": None}]
    assert lines[0]["timestamp_type"] == "create"


def test_nulls(at: str, topic: str) -> None:
    output("produce", topic, "-K", ":", "-Z", "-q", stdin=b"k:\n:v\n", bootstrap=at)
    assert consume(at, topic, "-e", "-Z", "NULL", "-f", "%k|%s,") == b"k|NULL,NULL|v,"


def test_bytes_stay_bytes(at: str, topic: str, tmp_path: Path) -> None:
    data = bytes(range(256)) * 40
    file = tmp_path / "blob"
    file.write_bytes(data)
    output("produce", topic, str(file), "--whole", "-q", bootstrap=at)
    assert consume(at, topic, "-c", "1", "-f", "%s") == data


def test_lines_of_files_and_other_delimiters(at: str, topic: str, tmp_path: Path) -> None:
    for name, data in (("a", b"1;2;"), ("b", b"3;4")):
        (tmp_path / name).write_bytes(data)
    sent = parsed(
        *("produce", topic, str(tmp_path / "a"), str(tmp_path / "b"), "-D", ";", "-p", "0"),
        bootstrap=at,
    )
    assert sent == {"topic": topic, "records": 4, "partitions": {"0": 4}}
    assert consume(at, topic, "-e", "-f", "%s ") == b"1 2 3 4 "


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_compressed(at: str, topic: str, codec: str) -> None:
    lines = b"".join(b"line %d\n" % n for n in range(1000))
    output("produce", topic, "-z", codec, "-q", stdin=lines, bootstrap=at)
    assert consume(at, topic, "-e") == lines


def test_a_group_goes_on_where_it_was(at: str, ten: str) -> None:
    group = f"{ten}-group"
    assert consume(at, ten, "-G", group, "-c", "4").split() == [b"%d" % n for n in range(4)]
    assert consume(at, ten, "-G", group, "-e").split() == [b"%d" % n for n in range(4, 10)]
    assert consume(at, ten, "-G", group, "-e") == b""


def test_ctrl_c_ends_a_consumer(at: str, ten: str) -> None:
    child = subprocess.Popen(
        [str(TAILRACE), "consume", ten, "-b", at, "-q"], stdout=subprocess.PIPE
    )
    assert child.stdout is not None
    assert [child.stdout.readline() for _ in range(10)] == [b"%d\n" % n for n in range(10)]
    child.send_signal(signal.SIGINT)
    assert child.wait(30) == Exit.INTERRUPTED
    child.stdout.close()


def test_a_reader_that_had_enough_is_no_error(at: str, topic: str) -> None:
    lines = b"".join(b"%0100d\n" % n for n in range(20_000))
    output("produce", topic, "-q", stdin=lines, bootstrap=at)
    child = subprocess.Popen(
        [str(TAILRACE), "consume", topic, "-b", at, "-e"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert child.stdout is not None
    assert child.stderr is not None
    child.stdout.readline()
    child.stdout.close()
    with child.stderr:
        assert child.wait(30) == Exit.OK
        assert child.stderr.read() == b""


@pytest.mark.parametrize(
    ("code", "arguments", "words"),
    [
        (Exit.FAILED, ("consume", "no-such-topic", "-e"), "no-such-topic"),
        (Exit.FAILED, ("consume", "{ten}", "-p", "7"), "no partition 7"),
        (Exit.FAILED, ("consume", "{ten}", "-o", "11"), "ends at 10"),
        (Exit.USAGE, ("consume", "{ten}", "-o", "soon"), "@MILLISECONDS"),
        (Exit.USAGE, ("consume", "{ten}", "-f", "%q"), "unknown field %q"),
        (Exit.USAGE, ("consume", "{ten}", "-f", "%s", "--json"), "--json"),
        (Exit.USAGE, ("consume", "{ten}", "-G", "g", "-p", "0"), "group"),
        (Exit.USAGE, ("consume", "{ten}", "-G", "g", "-o", "7"), "committed"),
        (Exit.USAGE, ("produce", "{ten}", "--whole"), "--whole needs files"),
        (Exit.USAGE, ("produce", "{ten}", "-D", ""), "empty delimiter"),
        (Exit.USAGE, ("produce", "{ten}", "-z", "rar"), "rar"),
        (Exit.FAILED, ("produce", "{ten}", "/no/such/file"), "/no/such/file"),
        (Exit.FAILED, ("produce", "{ten}", "-p", "7"), "has no partition"),
    ],
)
def test_refusals(at: str, ten: str, code: Exit, arguments: tuple[str, ...], words: str) -> None:
    filled = [argument.replace("{ten}", ten) for argument in arguments]
    assert words in refusal(code, *filled, bootstrap=at, stdin=b"x\n")


def test_a_record_above_the_limit_is_refused_and_named(at: str, topic: str) -> None:
    output("topic", "create", topic, "-c", "max.message.bytes=2000", bootstrap=at)
    text = refusal(Exit.FAILED, "produce", topic, stdin=b"x" * 5000, bootstrap=at)
    assert "MSG_SIZE_TOO_LARGE" in text
    assert tailrace("consume", topic, "-e", "-q", bootstrap=at).stdout == b""


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("produce", "t", "-T", "99999999999999999999"), "0<=x<="),
        (("produce", "t", "-T", "-5"), "0<=x<="),
        (("produce", "t", "-p", "99999999999"), "-1<=x<=2147483647"),
        (("produce", "t", "-z", "brotli"), "one of none, gzip, snappy, lz4, zstd"),
        (("produce", "t", "-a", "2"), "one of all, -1, 1, 0"),
        (("consume", "t", "-G", ""), "an empty group id"),
    ],
)
def test_wrong_command_lines(at: str, arguments: tuple[str, ...], words: str) -> None:
    assert words in refusal(Exit.USAGE, *arguments, bootstrap=at, stdin=b"x\n")


def test_what_is_named_twice_is_read_once(at: str, ten: str) -> None:
    twice = output("consume", ten, ten, "-p", "0", "-p", "0", "-e", "-q", bootstrap=at)
    assert len(twice.split()) == 10


def test_a_record_too_large_for_the_client_says_what_to_set(at: str, topic: str) -> None:
    text = refusal(Exit.FAILED, "produce", topic, bootstrap=at, stdin=b"x" * 1_200_000)
    assert "-X message.max.bytes=N" in text
    assert "1 records refused, 0 acknowledged" in text


def test_a_record_whose_answer_is_lost_is_written_once(tmp_path: Path) -> None:
    """As when its broker dies behind the write: the client sends it again."""
    with TailraceProcess(tmp_path / "data", "--test-faults", "127.0.0.1:0") as broker:
        at, faults = broker.bootstrap, FaultPort(broker.output)
        output("topic", "create", "t", bootstrap=at)
        lost = faults.ask("POST", fault="drop_next", api="Produce", count=2)[1]["id"]
        lines = b"".join(b"%d\n" % number for number in range(20))
        output("produce", "t", stdin=lines, bootstrap=at)
        assert faults.ask("DELETE", f"/{lost}")[1][0]["hits"] == 2
        assert consume(at, "t", "-e") == lines


def test_a_weaker_acknowledgement_is_nobodys_idempotence(at: str, topic: str) -> None:
    for weaker in (("-a", "1"), ("-a", "0"), ("-X", "acks=1"), ("-X", "enable.idempotence=false")):
        output("produce", topic, *weaker, stdin=b"x\n", bootstrap=at)
    assert len(consume(at, topic, "-c", "4").split()) == 4


def test_a_partition_that_is_not_there_makes_no_topic(at: str, topic: str) -> None:
    text = refusal(Exit.FAILED, "produce", topic, "-p", "9", bootstrap=at, stdin=b"x\n")
    assert f"there is no topic {topic}" in text
    assert f"tailrace topic create {topic} --partitions 10" in text
    assert topic not in output("topic", "list", bootstrap=at).decode().split()
    output("topic", "create", topic, "-p", "3", bootstrap=at)
    text = refusal(Exit.FAILED, "produce", topic, "-p", "3", bootstrap=at, stdin=b"x\n")
    assert f"topic {topic} has no partition 3" in text
    assert "0 to 2" in text
    output("topic", "delete", topic, bootstrap=at)
    refusal(Exit.FAILED, "produce", topic, "-p", "9", bootstrap=at, stdin=b"x\n")
    assert topic not in output("topic", "list", bootstrap=at).decode().split()
