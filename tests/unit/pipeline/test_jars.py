"""The connector jars: what happens without Maven, and that a full folder costs nothing."""

from pathlib import Path

import pytest

from tailrace.pipeline.jars import ConnectorUnavailable, connector_jars

_NAMES = (
    "spark-sql-kafka-0-10_2.13-4.2.0.jar",
    "spark-token-provider-kafka-0-10_2.13-4.0.0.jar",
    "kafka-clients-3.9.2.jar",
    "commons-pool2-2.13.1.jar",
)


def test_a_full_folder_needs_no_maven(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    for name in _NAMES:
        (tmp_path / name).touch()
    assert [jar.name for jar in connector_jars(tmp_path)] == list(_NAMES)


def test_without_maven_it_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(ConnectorUnavailable, match="install Maven, or put the four jars"):
        connector_jars(tmp_path)


def test_a_failing_maven_is_quoted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    maven = tmp_path / "mvn"
    maven.write_text("#!/bin/sh\necho no network\nexit 3\n")
    maven.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    with pytest.raises(ConnectorUnavailable, match=r"Maven failed \(3\): no network"):
        connector_jars(tmp_path / "jars")
