"""The wheel beside a user's own package called `core`: both work."""

import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.process import TailraceProcess

_ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder)]
    subprocess.run([*build, str(_ROOT)], check=True, capture_output=True, timeout=120)
    (found,) = folder.glob("*.whl")
    return found


def test_exactly_one_name_at_the_top(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as packed:
        tops = {name.split("/")[0] for name in packed.namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"tailrace"}


def test_it_lives_beside_a_users_core(wheel: Path, tmp_path: Path) -> None:
    venv = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True, timeout=120)
    site = Path(sysconfig.get_path("purelib", "venv", vars={"base": str(venv)}))
    # Dependencies are this environment's locked ones; the packages under test are the venv's own.
    (site / "locked.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    python = venv / "bin" / "python"
    install = [str(python), "-m", "pip", "install", "--quiet", "--no-deps", "--force-reinstall"]
    subprocess.run([*install, str(wheel)], check=True, timeout=120, capture_output=True)
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
