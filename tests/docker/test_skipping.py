"""What fails the tests here, and what skips them. Needs no daemon."""

from pathlib import Path

import pytest

from tests.docker import conftest, engine, images


def test_a_base_that_takes_too_long_fails(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def build(_context: Path) -> str:
        images._try("a base image", "sleep", "60")
        return "never"

    monkeypatch.setattr(images, "FETCH_WITHIN_S", 0.01)
    monkeypatch.setattr(images, "build", build)
    with pytest.raises(pytest.fail.Exception, match=r"a base image: sleep takes over 0.01 s"):
        conftest.built(tmp_path)


def test_a_mirror_that_refuses_fails(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(images, "build", lambda _: images._try("wheels", "false"))
    with pytest.raises(pytest.fail.Exception, match="wheels"):
        conftest.built(tmp_path)


def test_a_machine_that_runs_no_container_skips(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def build(_context: Path) -> str:
        raise engine.CannotStart("no container runs here")

    monkeypatch.setattr(images, "build", build)
    with pytest.raises(pytest.skip.Exception, match="no container runs here"):
        conftest.built(tmp_path)
