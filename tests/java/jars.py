"""Java for tests: jars through Maven, classes through javac; made once, offline after that.

Everything lands below `.cache/java` in the repository. Without java, javac or mvn the test that
asks is skipped, and says which tool is missing.
"""

import os
import subprocess
from pathlib import Path

import pytest

from tests import fetched
from tests.fetched import once, tool

HERE = Path(__file__).parent
PEER = HERE / "peer"
"""What the programs behind a pipe share."""
CACHE = fetched.CACHE / "java"


def jars(pom: str) -> list[Path]:
    """Return the jars that tests/java/<pom>/pom.xml names, with their dependencies."""
    tool("java")
    pom_file = HERE / pom / "pom.xml"
    folder = CACHE / pom
    with once(folder, pom_file.read_bytes()) as todo:
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


def main_class(
    pom: str, name: str, against: str | None = None, *, runs_long: bool = False
) -> list[str]:
    """Return the command that runs tests/java/<pom>/<name>.java, compiled with what it uses there.

    The jars are those of `pom`, or of another one: one source against several versions.
    `runs_long`: with all of Java's compiler, for what is measured; else with the part that starts
    fast.
    """
    java, javac = tool("java"), tool("javac")
    classpath = jars(against or pom)
    source = HERE / pom / f"{name}.java"
    folder = CACHE / f"{against or pom}-{name}"
    sources = [*sorted(PEER.glob("*.java")), *sorted((HERE / pom).glob("*.java"))]
    with once(folder, b"".join(path.read_bytes() for path in sources)) as todo:
        if todo:
            path = os.pathsep.join(map(str, [PEER, HERE / pom]))
            where = ["-cp", os.pathsep.join(map(str, classpath)), "-sourcepath", path]
            _run([javac, *where, "-d", str(folder), str(source)])
    every = os.pathsep.join(map(str, [folder, *classpath]))
    compiler = [] if runs_long else ["-XX:TieredStopAtLevel=1"]
    return [java, *compiler, "-Xshare:auto", "-cp", every, name]


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.fail(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
