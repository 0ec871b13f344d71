"""The wheel beside a user's own package called `core`: both work."""

import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.process import TailraceProcess
from tests.wheel import (
    build_wheel,
    locked_wheels,
    make_dist,
    make_venv,
    site_packages,
    unpacked_sdist,
)

PLATFORM = sysconfig.get_platform().replace("-", "_")
UNCOMPILED = "record loops are not compiled"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make what `make dist` makes; the source distribution lies beside the wheel."""
    return make_dist(tmp_path_factory.mktemp("dist"))


def test_exactly_one_name_at_the_top(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as packed:
        tops = {name.split("/")[0] for name in packed.namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"tailrace"}


def test_it_lives_beside_a_users_packages(wheel: Path, tmp_path: Path) -> None:
    venv = tmp_path / "venv"
    python = make_venv(venv, wheel)
    site = site_packages(venv)
    for name in ("core", "protocol", "broker"):
        (site / name).mkdir()
        (site / name / "__init__.py").write_text("mine = True\n")

    mine = (
        "import broker, core, protocol; assert core.mine and protocol.mine and broker.mine; "
        "from tailrace.restore import restore; import tailrace.broker.server; "
        "import tailrace.dlog.sync, tailrace.sim; "
        "print(tailrace.__file__)"
    )
    ran = subprocess.run(
        [str(python), "-I", "-c", mine], check=True, timeout=60, capture_output=True
    )
    assert str(site).encode() in ran.stdout

    with TailraceProcess(tmp_path / "data", command=venv / "bin" / "tailrace") as broker:
        produce(broker)
    assert UNCOMPILED not in broker.output


def produce(broker: TailraceProcess) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    producer.produce("t", b"v")
    assert producer.flush(30) == 0


def test_it_is_for_one_platform_as_it_holds_what_was_compiled(wheel: Path) -> None:
    assert wheel.name.split("-")[2:] == ["cp311", "cp311", f"{PLATFORM}.whl"]
    with zipfile.ZipFile(wheel) as packed:
        compiled = [name for name in packed.namelist() if name.endswith(".so")]
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    assert compiled == [f"tailrace/protocol/records/_record_loops{suffix}"]


def test_without_a_compiler_it_works_and_says_what_is_missing(wheel: Path, tmp_path: Path) -> None:
    source = unpacked_sdist(wheel.parent, tmp_path)
    assert not list(source.rglob("*.so"))
    plain = build_wheel(tmp_path / "dist", source, CC="false")
    assert plain.name.split("-")[2:] == ["py3", "none", "any.whl"]
    make_venv(tmp_path / "venv", plain)
    command = tmp_path / "venv" / "bin" / "tailrace"
    with TailraceProcess(tmp_path / "data", command=command) as broker:
        produce(broker)
    assert broker.output.count(UNCOMPILED) == 1
    assert "make install" in broker.output


@pytest.fixture
def offline(tmp_path: Path) -> dict[str, str]:
    """Return an environment whose installers find the locked wheels, and nothing else."""
    tools = Path(sys.executable).parent
    return {
        **os.environ,
        "PATH": f"{tools}:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "UV_CACHE_DIR": str(tmp_path / "uv"),
        "UV_FIND_LINKS": str(locked_wheels()),
        "UV_NO_INDEX": "1",
        "UV_OFFLINE": "1",
        "UV_PYTHON": sys.executable,
        "PIPX_HOME": str(tmp_path / "pipx"),
        "PIPX_BIN_DIR": str(tmp_path / "bin"),
        "PIPX_DEFAULT_BACKEND": "uv",
    }


def test_uvx_runs_it_from_the_wheel(wheel: Path, offline: dict[str, str]) -> None:
    done = run("uvx", "--from", str(wheel), "tailrace", "--version", env=offline)
    assert done == "tailrace 0.1.0\n"


def test_pipx_installs_it_from_the_wheel(
    wheel: Path, offline: dict[str, str], tmp_path: Path
) -> None:
    run("pipx", "install", str(wheel), env=offline)
    with TailraceProcess(tmp_path / "data", command=tmp_path / "bin" / "tailrace") as broker:
        produce(broker)
    assert UNCOMPILED not in broker.output


def run(*command: str, env: dict[str, str]) -> str:
    done = subprocess.run(
        command, env=env, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
