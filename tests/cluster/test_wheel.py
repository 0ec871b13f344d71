"""The wheel beside a user's own package called `core`: both work."""

import subprocess
import zipfile
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.process import TailraceProcess
from tests.wheel import build_wheel, make_venv, site_packages


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("dist"))


def test_exactly_one_name_at_the_top(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as packed:
        tops = {name.split("/")[0] for name in packed.namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"tailrace"}


def test_it_lives_beside_a_users_core(wheel: Path, tmp_path: Path) -> None:
    venv = tmp_path / "venv"
    python = make_venv(venv, wheel)
    site = site_packages(venv)
    (site / "core").mkdir()
    (site / "core" / "__init__.py").write_text("mine = True\n")

    mine = "import core, sys; assert core.mine; import tailrace; print(tailrace.__file__)"
    ran = subprocess.run(
        [str(python), "-I", "-c", mine], check=True, timeout=60, capture_output=True
    )
    assert str(site).encode() in ran.stdout

    with TailraceProcess(tmp_path / "data", command=venv / "bin" / "tailrace") as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap})
        producer.produce("t", b"v")
        assert producer.flush(30) == 0
