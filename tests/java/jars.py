"""Java for tests: jars through Maven, classes through javac; made once, offline after that.

Everything lands below `.cache/java` in the repository. Without java, javac or mvn the test that
asks is skipped, and says which tool is missing.
"""

import os
import subprocess
from pathlib import Path
from typing import Final

import pytest

from tests import fetched
from tests.fetched import once, tool

HERE = Path(__file__).parent
PEER = HERE / "peer"
"""What the programs behind a pipe share."""
CACHE = fetched.CACHE / "java"
QUICK_JVM: Final = (
    *("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"),
    *("-XX:+UnlockDiagnosticVMOptions", "-XX:-BytecodeVerificationRemote"),
)
"""For a JVM that works for seconds: what it would compile and verify costs more than it brings."""


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
    pom: str,
    name: str,
    against: str | None = None,
    *,
    runs_long: bool = False,
    generated: Path | None = None,
) -> list[str]:
    """Return the command that runs tests/java/<pom>/<name>.java, compiled with its neighbours.

    The jars are those of `pom`, or of another one: one source, with what it uses, against several
    versions. `runs_long`: as Java is by default, for what is measured; else a `QUICK_JVM`.
    `generated`: a folder with more sources that it uses.
    """
    java, javac = tool("java"), tool("javac")
    classpath = jars(against or pom)
    folder = CACHE / (f"{against}-{name}" if against else f"{pom}-classes")
    sources = [*sorted(PEER.glob("*.java")), *sorted((HERE / pom).glob("*.java"))]
    compiled = [HERE / pom / f"{name}.java"] if against else sources
    more = sorted(generated.rglob("*.java")) if generated else []
    with once(folder, b"".join(path.read_bytes() for path in [*sources, *more])) as todo:
        if todo:
            quick = [f"-J{flag}" for flag in QUICK_JVM]
            path = os.pathsep.join(
                map(str, [PEER, HERE / pom, *([generated] if generated else [])])
            )
            where = ["-cp", os.pathsep.join(map(str, classpath)), "-sourcepath", path]
            _run([javac, *quick, "-proc:none", *where, "-d", str(folder), *map(str, compiled)])
    every = os.pathsep.join(map(str, [folder, *classpath]))
    return [java, *([] if runs_long else QUICK_JVM), "-cp", every, name]


def _run(command: list[str]) -> None:
    quick = {"MAVEN_OPTS": " ".join(QUICK_JVM), **os.environ}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=quick)
    if done.returncode:
        pytest.fail(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
