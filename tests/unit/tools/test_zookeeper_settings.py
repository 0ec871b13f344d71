"""How commands find their credentials for ZooKeeper, and what a process makes of the variables."""

from pathlib import Path

import pytest

from tailrace.core.metadata.zookeeper_config import ZookeeperSecurityConfig
from tailrace.processes.bookie_config import BookieProcessConfig
from tailrace.processes.standalone_config import StandaloneConfig
from tailrace.tools.cluster.zookeeper_settings import zookeeper_settings
from tailrace.tools.errors import CliError
from tailrace.tools.settings import load_settings_of

VARIABLE = "TAILRACE_ZOOKEEPER_CONFIG"


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "broker.toml"
    path.write_text(
        "num.partitions = 3\n"
        'zookeeper.auth.username = "tailrace"\n'
        'zookeeper.auth.password = "one"\n'
    )
    monkeypatch.setenv(VARIABLE, str(path))
    return path


def test_without_anything_there_are_none() -> None:
    assert zookeeper_settings() == ZookeeperSecurityConfig()


def test_the_file_of_a_broker_will_do_and_the_environment_wins(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = zookeeper_settings()
    assert (found.auth_username, found.auth_password.reveal()) == ("tailrace", "one")
    monkeypatch.setenv("TAILRACE_ZOOKEEPER_AUTH_PASSWORD", "two")
    assert zookeeper_settings().auth_password.reveal() == "two"


def test_a_typo_and_a_lone_password_are_refused(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.write_text('zookeeper.auth.usrname = "tailrace"\n')
    with pytest.raises(CliError, match=r"zookeeper\.auth\.usrname .*did you mean"):
        zookeeper_settings()
    file.write_text('zookeeper.auth.password = "one"\n')
    with pytest.raises(CliError, match="belong together"):
        zookeeper_settings()
    monkeypatch.setenv(VARIABLE, str(file / "none"))
    with pytest.raises(CliError, match="cannot read"):
        zookeeper_settings()


def test_variables_of_commands_disturb_no_process(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A standalone broker has no ZooKeeper, and is started from the same shell."""
    monkeypatch.setenv("TAILRACE_ZOOKEEPER_AUTH_USERNAME", "tailrace")
    monkeypatch.setenv("TAILRACE_ZOOKEEPER_AUTH_PASSWORD", "two")
    load_settings_of(StandaloneConfig, "tailrace start", None)
    bookie = load_settings_of(BookieProcessConfig, "tailrace bookie", None).config
    assert bookie.zookeeper.auth_password.reveal() == "two"
