"""`tailrace txn` against a running broker."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tailrace.protocol.errors import ErrorCode
from tailrace.tools.errors import Exit
from tests.cluster.cli import output, parsed, refusal
from tests.cluster.fault_port import FaultPort
from tests.cluster.raw import RawClient
from tests.cluster.transaction_story import TV1, Story
from tests.process import TailraceProcess

HUNG_ID = 987_654


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TailraceProcess]:
    """A broker that lets transactions hang: it asks no coordinator before it appends."""
    trusting = "transaction.partition.verification.enable=false"
    folder = tmp_path_factory.mktemp("broker") / "data"
    with TailraceProcess(folder, "--set", trusting) as running:
        yield running


@pytest.fixture
def at(broker: TailraceProcess) -> str:
    return broker.bootstrap


def test_list_and_describe(broker: TailraceProcess, at: str) -> None:
    with RawClient(broker) as client:
        story = Story(broker, client)
        story.versions = TV1
        me = story.init()
        assert story.add(me, story.a, story.b) is ErrorCode.NONE
        (row,) = parsed("txn", "list", "--producer-id", str(me.producer_id), bootstrap=at)
        assert row == {
            "transactional_id": story.name,
            "coordinator": 1,
            "producer_id": me.producer_id,
            "state": "Ongoing",
        }
        listed = parsed("txn", "list", "--state", "Ongoing", "--pattern", "id-.*", bootstrap=at)
        assert row in listed
        assert parsed("txn", "list", "--pattern", "id", bootstrap=at) == []
        assert row not in parsed("txn", "list", "--open-longer-than", "600000", bootstrap=at)
        (described,) = parsed("txn", "describe", story.name, bootstrap=at)
        assert described["partitions"] == [f"{story.a}-0", f"{story.b}-0"]
        assert (described["producer_id"], described["producer_epoch"]) == me
        assert (described["state"], described["timeout_ms"]) == ("Ongoing", 60_000)
        assert described["open_ms"] >= 0
        text = output("txn", "describe", story.name, bootstrap=at).decode()
        assert f"partitions       {story.a}-0,{story.b}-0" in text
        lines = output("txn", "list", bootstrap=at).decode().splitlines()
        assert lines[0].split() == ["transactional_id", "coordinator", "producer_id", "state"]
        story.ended(me, committed=False)


def test_what_is_not_there(at: str) -> None:
    text = refusal(Exit.FAILED, "txn", "describe", "nobody", bootstrap=at)
    assert "TRANSACTIONAL_ID_NOT_FOUND (105)" in text
    text = refusal(Exit.FAILED, "txn", "list", "--state", "Odd", bootstrap=at)
    assert "no such state: Odd" in text
    text = refusal(Exit.FAILED, "txn", "list", "--pattern", "a(", bootstrap=at)
    assert "INVALID_REGULAR_EXPRESSION" in text
    text = refusal(Exit.USAGE, "txn", "list", "-X", "fetch.min.bytes=1", bootstrap=at)
    assert "-X fetch.min.bytes" in text
    text = refusal(Exit.UNREACHABLE, "txn", "list", bootstrap="127.0.0.1:1")
    assert "no broker answers" in text


def test_one_that_hangs_is_found_and_aborted(broker: TailraceProcess, at: str) -> None:
    """A write that came so late that its transaction was over: nobody will ever end it."""
    with RawClient(broker) as client:
        story = Story(broker, client)
        story.versions = TV1
        story.hang(HUNG_ID, story.a)
        story.write_plainly(story.a, b"behind it")
        assert story.committed(story.a) == []
        me = story.init()
        assert story.add(me, story.a) is ErrorCode.NONE
        assert story.write(me, story.a, b"served") is ErrorCode.NONE
        where = ("--topic", story.a, "--max-transaction-timeout", "0")
        (row,) = parsed("txn", "hanging", *where, bootstrap=at)
        assert (row["topic"], row["partition"], row["producer_id"]) == (story.a, 0, HUNG_ID)
        assert row["start_offset"] == 0
        assert parsed("txn", "hanging", "--topic", story.a, bootstrap=at) == []  # not for long
        assert parsed("txn", "hanging", *where, "-p", "1", bootstrap=at) == []
        abort = ("txn", "abort", "--topic", story.a, "--partition", "0", "--start-offset")
        assert "is open since offset 7" in refusal(Exit.FAILED, *abort, "7", bootstrap=at)
        output(*abort, "0", bootstrap=at)
        assert parsed("txn", "hanging", *where, bootstrap=at) == []
        story.ended(me, committed=True)
        story.wait_for(story.a, b"behind it", b"served")


def test_a_late_write_of_an_id_whose_coordinator_lives(broker: TailraceProcess, at: str) -> None:
    """Its transaction was over; the id is idle, or in another transaction."""
    with RawClient(broker) as client:
        story = Story(broker, client)
        story.versions = TV1
        me = story.init()
        assert story.add(me, story.a) is ErrorCode.NONE
        assert story.write(me, story.a, b"in time") is ErrorCode.NONE
        story.ended(me, committed=True)
        assert story.write(me, story.a, b"late") is ErrorCode.NONE
        where = ("--topic", story.a, "--max-transaction-timeout", "0")
        (row,) = parsed("txn", "hanging", *where, bootstrap=at)
        assert (row["producer_id"], row["start_offset"]) == (me.producer_id, 2)
        assert (row["transactional_id"], row["state"]) == (None, None)
        assert story.add(me, story.b) is ErrorCode.NONE  # its next one, elsewhere
        assert parsed("txn", "hanging", *where, bootstrap=at) == [row]


def test_one_that_its_coordinator_should_have_ended(tmp_path: Path) -> None:
    """It lives and never looks: its clock said ten minutes ago that the transaction begins."""
    never = "transaction.abort.timed.out.transaction.cleanup.interval.ms=3600000"
    faults = ("--test-faults", "127.0.0.1:0")
    with (
        TailraceProcess(tmp_path / "data", "--set", never, *faults) as broker,
        RawClient(broker) as client,
    ):
        port = FaultPort(broker.output)
        assert port.ask("POST", fault="skew_clock", seconds=-600)[0] == 200
        story, at = Story(broker, client), broker.bootstrap
        story.versions = TV1
        me = story.init(timeout_ms=60_000)
        assert story.add(me, story.a) is ErrorCode.NONE
        assert story.write(me, story.a, b"for ever") is ErrorCode.NONE
        where = ("--topic", story.a, "--max-transaction-timeout", "0")
        (row,) = parsed("txn", "hanging", *where, bootstrap=at)
        assert (row["producer_id"], row["start_offset"]) == (me.producer_id, 0)
        assert (row["transactional_id"], row["state"]) == (story.name, "Ongoing")
        text = output("txn", "hanging", *where, bootstrap=at).decode()
        assert story.name in text
        patient = story.init(timeout_ms=900_000)  # ends the other, and has a quarter of an hour
        assert story.add(patient, story.a) is ErrorCode.NONE
        assert story.write(patient, story.a, b"not yet") is ErrorCode.NONE
        assert parsed("txn", "hanging", *where, bootstrap=at) == []
