"""The loader: order of sources, refusals that say what, where and what instead."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import msgspec
import pytest

from tailrace.core.runtime.config import (
    Assignment,
    ConfigError,
    Secret,
    environment_name,
    load,
    setting,
    settings_of,
    shown,
    values_of,
)
from tailrace.core.runtime.config_sources import from_arguments, from_environment, from_toml

AtLeastOne = Annotated[int, msgspec.Meta(ge=1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSettings:
    retention_ms: int | None = setting("log.retention.ms", None, "how long records stay")
    policy: tuple[str, ...] = setting("log.cleanup.policy", ("delete",), "what may go")
    group_wait_ms: AtLeastOne = setting("journalMaxGroupWaitMSec", 2, "latency for fewer syncs")
    group_bytes: int = setting("journalGroupBytes", 10, "bytes in one sync")

    def __post_init__(self) -> None:
        if self.group_bytes < self.group_wait_ms:
            raise ValueError("journalGroupBytes must not be below journalMaxGroupWaitMSec")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    port: int = setting("port", 9092, "a name that Kubernetes uses too")
    data: Path = setting("data", Path("data"), "where everything lies")
    create: bool = setting("auto.create.topics.enable", True, "make topics on first use")
    ratio: float = setting("ratio", 0.5, "a number")
    kind: Literal["refuse", "clamp"] = setting("replication.policy", "refuse", "a choice")
    log: LogSettings = field(default_factory=LogSettings)


def given(*arguments: str) -> list[Assignment]:
    return from_arguments(arguments)


def test_defaults_are_in_force_when_nothing_is_given() -> None:
    loaded = load(Settings, [])
    assert loaded.config == Settings()
    assert {row.origin for row in loaded.effective()} == {"default"}


def test_the_last_source_wins_and_is_remembered(tmp_path: Path) -> None:
    file = tmp_path / "t.toml"
    file.write_text("ratio = 0.1\ndata = '/one'\n[log.retention]\nms = 5\n")
    environ = {"TAILRACE_RATIO": "0.2", "TAILRACE_DATA": "/two", "HOME": "/root"}
    assignments = [
        *from_toml(file),
        *from_environment(Settings, environ),
        *given("ratio=0.3"),
    ]
    loaded = load(Settings, assignments)
    assert loaded.config.ratio == 0.3
    assert loaded.config.data == Path("/two")
    assert loaded.config.log.retention_ms == 5
    assert loaded.origins == {
        "ratio": "--set ratio=0.3",
        "data": "environment TAILRACE_DATA",
        "log.retention.ms": str(file),
    }


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("auto.create.topics.enable=false", False),
        ("auto.create.topics.enable=TRUE", True),
        ("auto.create.topics.enable=0", False),
    ],
)
def test_booleans_as_text(argument: str, value: bool) -> None:
    assert load(Settings, given(argument)).config.create is value


def test_lists_paths_and_choices_as_text() -> None:
    config = load(
        Settings,
        given("log.cleanup.policy=compact, delete", "data=~/x", "replication.policy=clamp"),
    ).config
    assert config.log.policy == ("compact", "delete")
    assert config.data == Path.home() / "x"
    assert config.kind == "clamp"


def test_lists_from_toml_stay_lists(tmp_path: Path) -> None:
    file = tmp_path / "t.toml"
    file.write_text('log.cleanup.policy = ["compact"]\n"log.retention.ms" = 7\n')
    config = load(Settings, from_toml(file)).config
    assert config.log.policy == ("compact",)
    assert config.log.retention_ms == 7


@pytest.mark.parametrize(
    ("argument", "parts"),
    [
        ("ratio=x", ["ratio", "'x'", "--set ratio=x", "a number"]),
        ("log.retention.ms=1.5", ["log.retention.ms", "an integer"]),
        ("journalMaxGroupWaitMSec=0", ["journalMaxGroupWaitMSec", "an integer", ">= 1"]),
        ("replication.policy=maybe", ["one of refuse, clamp"]),
        ("auto.create.topics.enable=maybe", ["true or false"]),
    ],
)
def test_a_bad_value_names_key_value_type_and_place(argument: str, parts: list[str]) -> None:
    with pytest.raises(ConfigError) as error:
        load(Settings, given(argument))
    for part in parts:
        assert part in str(error.value)


def test_an_unknown_key_names_its_place_and_the_nearest_known_one() -> None:
    with pytest.raises(
        ConfigError, match=r"log\.retention\.msec .*did you mean log\.retention\.ms"
    ):
        load(Settings, given("log.retention.msec=1"))
    with pytest.raises(ConfigError, match=r"unknown setting zzz \(--set zzz=1\)$"):
        load(Settings, given("zzz=1"))


def test_an_unknown_variable_names_the_nearest_known_one() -> None:
    with pytest.raises(ConfigError, match=r"TAILRACE_RATO in the environment.*TAILRACE_RATIO"):
        from_environment(Settings, {"TAILRACE_RATO": "1"})


def test_what_kubernetes_injects_is_not_ours() -> None:
    environ = {
        "TAILRACE_SERVICE_HOST": "10.0.0.1",
        "TAILRACE_SERVICE_PORT_KAFKA": "9092",
        "TAILRACE_PORT": "tcp://10.0.0.1:9092",
        "TAILRACE_PORT_9092_TCP": "tcp://10.0.0.1:9092",
        "TAILRACE_PORT_9092_TCP_ADDR": "10.0.0.1",
    }
    assert from_environment(Settings, environ) == []
    assert load(Settings, from_environment(Settings, {"TAILRACE_PORT": "1"})).config.port == 1
    assert from_environment(Settings, {"TAILRACE_OTHER": "x"}, others=["TAILRACE_OTHER"]) == []
    with pytest.raises(ConfigError):
        from_environment(Settings, {"TAILRACE_METRIC_PORT": "9100"})


def test_a_refused_combination_names_where_its_values_came_from() -> None:
    with pytest.raises(ConfigError, match=r"must not be below.*--set journalGroupBytes=1"):
        load(Settings, given("journalGroupBytes=1"))


@pytest.mark.parametrize("argument", ["", "novalue", "=x"])
def test_arguments_without_a_key_or_value_are_refused(argument: str) -> None:
    with pytest.raises(ConfigError, match="expected key=value"):
        from_arguments([argument])


def test_a_file_that_is_missing_or_broken_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no\.toml"):
        from_toml(tmp_path / "no.toml")
    broken = tmp_path / "broken.toml"
    broken.write_text("a = [")
    with pytest.raises(ConfigError, match=r"broken\.toml"):
        from_toml(broken)


def test_one_name_for_two_settings_is_our_bug() -> None:
    @dataclass(frozen=True)
    class Twice:
        one: int = setting("a.b", 1, "")
        other: int = setting("a-b", 1, "")

    with pytest.raises(AssertionError, match="TAILRACE_A_B"):
        settings_of(Twice)


def test_names_and_values_as_users_see_them() -> None:
    assert environment_name("log.retention.ms") == "TAILRACE_LOG_RETENTION_MS"
    assert [shown(v) for v in (None, True, ("a", "b"), 1.5, Path("/x"))] == [
        "",
        "true",
        "a,b",
        "1.5",
        "/x",
    ]
    rows = {row.key: row for row in load(Settings, given("ratio=1")).effective()}
    assert rows["ratio"].value == 1.0
    assert rows["ratio"].origin == "--set ratio=1"
    assert rows["log.retention.ms"].doc == "how long records stay"


@dataclass(frozen=True, slots=True, kw_only=True)
class Guarded:
    password: Secret = setting("ssl.key.password", Secret(""), "a secret")
    place: Path | None = setting("ssl.keystore.location", None, "a file")


def test_a_secret_is_shown_nowhere_and_revealed_on_request() -> None:
    loaded = load(Guarded, given("ssl.key.password=sesame"))
    assert loaded.config.password.reveal() == "sesame"
    row = next(row for row in loaded.effective() if row.key == "ssl.key.password")
    assert (shown(row.value), row.origin) == ("***", "--set ssl.key.password")
    assert "sesame" not in f"{loaded!r} {loaded.config.password!r}"
    assert shown(Guarded().password) == ""
    with pytest.raises(ConfigError) as refused:
        load(Guarded, [Assignment("ssl.key.password", 5150, "t.toml")])
    assert "5150" not in str(refused.value)


def test_values_of_a_tree_make_the_same_tree() -> None:
    """A broker makes its tree again whenever a setting of it is changed while it runs."""
    first = load(Guarded, given("ssl.key.password=sesame", "ssl.keystore.location=/keys")).config
    again = load(Guarded, [Assignment(key, value, "") for key, value in values_of(first).items()])
    assert again.config == first != Guarded()
    assert hash(again.config.password) == hash(first.password)
