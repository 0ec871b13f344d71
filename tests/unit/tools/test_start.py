"""`tailrace start`: settings before anything is opened."""

import json
from pathlib import Path

import pytest

from tailrace.broker.config import BrokerConfig, NetworkConfig
from tailrace.core.log.config import LogConfig
from tailrace.core.runtime.config import environment_name, settings_of
from tailrace.processes.broker_config import BrokerProcessConfig, OwnedTopicLogConfig
from tailrace.processes.standalone_config import StandaloneConfig
from tailrace.tools.errors import Exit
from tests.unit.tools.test_main import tailrace


def shown(*arguments: str, **environment: str) -> dict[str, tuple[str, str]]:
    done = tailrace("start", "--show-config", "--json", *arguments, **environment)
    assert done.returncode == 0, done.stderr
    return {row["setting"]: (row["value"], row["source"]) for row in json.loads(done.stdout)}


def test_every_setting_has_a_name_of_its_own_and_a_meaning() -> None:
    for leaf in settings_of(StandaloneConfig):
        assert leaf.doc, leaf.key
        assert environment_name(leaf.key).isascii()


def test_sources_in_their_order(tmp_path: Path) -> None:
    file = tmp_path / "tailrace.toml"
    file.write_text("[num]\npartitions = 2\n[log.retention]\nms = 5\n")
    got = shown(
        "--config",
        str(file),
        TAILRACE_NUM_PARTITIONS="3",
        TAILRACE_BOOTSTRAP="h:1",
        TAILRACE_ADMIN="h:2",
    )
    assert got["num.partitions"] == ("3", "environment TAILRACE_NUM_PARTITIONS")
    assert got["log.retention.ms"] == ("5", str(file))
    assert got["node.id"][1] == "default"
    got = shown("--set", "num.partitions=4", TAILRACE_NUM_PARTITIONS="3")
    assert got["num.partitions"] == ("4", "--set num.partitions=4")


def test_options_win(tmp_path: Path) -> None:
    got = shown(
        *("--data", str(tmp_path), "--listen", "[::1]:7", "--advertise", "public:8"),
        *("--set", "listeners=HOST://h:1"),
    )
    assert got["data"] == (str(tmp_path), f"--data {tmp_path}")
    assert got["listeners"] == ("PLAINTEXT://[::1]:7", "--listen [::1]:7")
    assert got["advertised.listeners"] == ("PLAINTEXT://public:8", "--advertise public:8")
    two = "HOST://:7,DOCKER://:8"
    got = shown("--listen", two, TAILRACE_ADVERTISED_LISTENERS="host://localhost:7")
    assert got["listeners"] == (two, f"--listen {two}")
    assert got["advertised.listeners"][0] == "host://localhost:7"


def test_an_open_listener_that_others_reach_is_refused_with_what_would_mend_it(
    tmp_path: Path,
) -> None:
    data = tmp_path / "data"
    done = tailrace("start", "--data", str(data), "--listen", ":9")
    assert done.returncode == Exit.USAGE
    cause, first, second = done.stderr.splitlines()
    assert "listeners=PLAINTEXT://:9" in cause
    assert "SASL_SSL://:9" in first
    assert "--insecure" in second
    assert not data.exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--set", "num.partition=3"), "did you mean num.partitions?"),
        (("--set", "num.partitions=x"), "expected an integer"),
        (("--set", "compression.type=rar"), "String must be one of"),
        (("--set", "nonsense"), "expected key=value"),
        (("--config", "/no/such.toml"), "/no/such.toml"),
        (("--listen", "a:b"), "--listen"),
        (("--listen", "A://h:1,A://h:2"), "two listeners are named A"),
        (("--advertise", "OTHER://h:1"), "OTHER is none of the listeners (PLAINTEXT)"),
    ],
)
def test_a_bad_setting_ends_it_before_anything_is_made(
    tmp_path: Path, arguments: tuple[str, ...], words: str
) -> None:
    data = tmp_path / "data"
    done = tailrace("start", "--data", str(data), *arguments)
    assert done.returncode == Exit.USAGE
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert not data.exists()


def test_the_bookie_lives_below_the_data_directory_unless_told(tmp_path: Path) -> None:
    config = StandaloneConfig(data=tmp_path)
    assert config.bookie_config().journal_directories == (tmp_path / "bookie" / "journal",)
    assert config.bookie_config().ledger_directories == (tmp_path / "bookie" / "ledgers",)
    assert config.metadata_path == tmp_path / "metadata.db"


def test_topics_are_read_less_far_ahead_than_a_log_alone(tmp_path: Path) -> None:
    ahead = StandaloneConfig(data=tmp_path).log.read_ahead_bytes
    assert ahead == BrokerProcessConfig().log_config().read_ahead_bytes == 4 * 1024 * 1024
    assert LogConfig().read_ahead_bytes == 4 * ahead


def test_every_setting_of_a_broker_of_a_cluster_has_a_meaning() -> None:
    for leaf in settings_of(BrokerProcessConfig):
        assert leaf.doc, leaf.key
        assert environment_name(leaf.key).isascii()


def test_a_broker_goes_by_its_id_and_address_in_the_locks_of_logs() -> None:
    network = NetworkConfig(
        listeners=("HOST://h:7", "IN://h:8"),
        advertised_listeners=("IN://public:0",),
        inter_broker_listener="IN",
    )
    config = BrokerProcessConfig(broker=BrokerConfig(node_id=3, network=network))
    assert config.log_config().client_id == "1;3;public:8"
    assert config.log_config().client_id_is_exclusive
    assert config.log_config().lock_timeout_s == 0
    named = BrokerProcessConfig(log=OwnedTopicLogConfig(client_id="mine", lock_timeout_s=4))
    assert named.log_config() == named.log


@pytest.mark.parametrize(
    "given",
    [
        "num.partitions=0",
        "num.partitions=-3",
        "offsets.topic.num.partitions=0",
        "transaction.state.log.num.partitions=-1",
        "socket.request.max.bytes=-1",
        "offsets.retention.minutes=0",
        "max.connections=-1",
        "node.id=-7",
        "admin.http.port=-1",
        "admin.http.port=65536",
    ],
)
def test_numbers_that_no_broker_can_run_with(given: str) -> None:
    """As Kafka refuses them; a broker came up with each, and served nobody."""
    done = tailrace("start", "--show-config", "--set", given)
    assert done.returncode == Exit.USAGE
    assert given.split("=")[0] in done.stderr
    assert "Expected `int`" in done.stderr


def test_what_cannot_be_opened_is_named_without_numbers_of_the_system(tmp_path: Path) -> None:
    done = tailrace("start", "--data", "/dev/null", "--listen", "127.0.0.1:0")
    assert done.returncode == Exit.FAILED
    assert done.stderr.splitlines()[0] == "error: cannot keep anything in /dev/null: File exists"
    (tmp_path / "bookie").mkdir(mode=0o755)
    (tmp_path / "bookie" / "journal").write_text("in the way")
    done = tailrace("start", "--data", str(tmp_path), "--listen", "127.0.0.1:0")
    assert done.returncode == Exit.FAILED
    assert done.stderr.splitlines()[0].startswith(f"error: {tmp_path}/bookie/journal")
    done = tailrace(
        "start", "--data", str(tmp_path / "other"), "--listen", "203.0.113.7:9", "--insecure"
    )
    assert done.returncode == Exit.FAILED
    warned, cause, *_ = done.stderr.splitlines()
    assert "insecure" in warned
    assert cause.startswith("error: cannot listen at PLAINTEXT://203.0.113.7:9: ")
