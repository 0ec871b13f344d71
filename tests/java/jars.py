"""Java for tests: jars through Maven, classes through javac; made once, offline after that.

Everything lands below `.cache/java` in the repository. Without java, javac or mvn the test that
asks is skipped, and says which tool is missing.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

HERE = Path(__file__).parent
PEER = HERE / "peer"
"""What the programs behind a pipe share."""
CACHE = HERE.parent.parent / ".cache" / "java"


def jars(pom: str) -> list[Path]:
    """Return the jars that tests/java/<pom>/pom.xml names, with their dependencies."""
    tool("java")
    pom_file = HERE / pom / "pom.xml"
    folder = CACHE / pom
    with _once(folder, pom_file.read_bytes()) as todo:
        if todo:
            output = f"-DoutputDirectory={folder}"
            _run(
                [
                    tool("mvn"),
                    "-q",
                    "-B",
                    "-f",
                    str(pom_file),
                    "dependency:copy-dependencies",
                    output,
                ]
            )
    return sorted(folder.glob("*.jar"))


def main_class(pom: str, name: str, against: str | None = None) -> list[str]:
    """Return the command that runs tests/java/<pom>/<name>.java, compiled with what it uses there.

    The jars are those of `pom`, or of another one: one source against several versions.
    """
    java, javac = tool("java"), tool("javac")
    classpath = jars(against or pom)
    source = HERE / pom / f"{name}.java"
    folder = CACHE / f"{against or pom}-{name}"
    sources = [*sorted(PEER.glob("*.java")), *sorted((HERE / pom).glob("*.java"))]
    with _once(folder, b"".join(path.read_bytes() for path in sources)) as todo:
        if todo:
            path = os.pathsep.join(map(str, [PEER, HERE / pom]))
            where = ["-cp", os.pathsep.join(map(str, classpath)), "-sourcepath", path]
            _run([javac, *where, "-d", str(folder), str(source)])
    every = os.pathsep.join(map(str, [folder, *classpath]))
    return [java, "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-cp", every, name]


def tool(name: str) -> str:
    """Return the path of a tool, or skip the test that needs it."""
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


@contextmanager
def _once(folder: Path, made_from: bytes) -> Iterator[bool]:
    """Yield whether `folder` must be filled (again), while no other worker looks at it."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    stamp = folder / ".made-from"
    wanted = hashlib.sha256(made_from).hexdigest()
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        todo = not stamp.exists() or stamp.read_text() != wanted
        if todo:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
        yield todo
        stamp.write_text(wanted)


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.fail(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
