"""The wheel beside a user's own package called `core`: both work."""

import subprocess
import sysconfig
import zipfile
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.process import TailraceProcess
from tests.wheel import build_wheel, make_venv, site_packages, unpacked_sdist

PLATFORM = sysconfig.get_platform().replace("-", "_")
UNCOMPILED = "record loops are not compiled"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("dist"))


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
        "from tailrace.compaction.restore import restore; import tailrace.broker.server; "
        "import tailrace.dlog.sync; "
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


def test_without_a_compiler_it_works_and_says_what_is_missing(tmp_path: Path) -> None:
    source = unpacked_sdist(tmp_path)
    assert not list(source.rglob("*.so"))
    wheel = build_wheel(tmp_path / "dist", source, CC="false")
    assert wheel.name.split("-")[2:] == ["py3", "none", "any.whl"]
    make_venv(tmp_path / "venv", wheel)
    command = tmp_path / "venv" / "bin" / "tailrace"
    with TailraceProcess(tmp_path / "data", command=command) as broker:
        produce(broker)
    assert broker.output.count(UNCOMPILED) == 1
    assert "make install" in broker.output
