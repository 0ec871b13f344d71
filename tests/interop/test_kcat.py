"""kcat as Debian ships it (an old librdkafka, 2.0.2) against a broker from the command line."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.fetched import CACHE, once, tool
from tests.process import TailraceProcess

pytestmark = pytest.mark.interop

_PACKAGES = ["kcat", "librdkafka1", "libyajl2"]
_TIMEOUT_S = 60


class Kcat:
    """The program, installed or unpacked, and one broker."""

    def __init__(self, program: Path, libraries: Path | None, broker: TailraceProcess) -> None:
        self._command = [str(program), "-b", broker.bootstrap]
        self._environment = dict(os.environ)
        if libraries is not None:
            self._environment["LD_LIBRARY_PATH"] = str(libraries)

    def __call__(self, *arguments: str, stdin: str = "") -> str:
        """Run it to its end and return what it prints."""
        done = subprocess.run(
            [*self._command, *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            env=self._environment,
            timeout=_TIMEOUT_S,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


def _unpacked() -> Path:
    """Fetch Debian's packages and unpack them into the cache; skip where there are none."""
    apt, dpkg = tool("apt-get"), tool("dpkg")
    folder = CACHE / "kcat"
    with once(folder, " ".join(_PACKAGES).encode()) as todo:
        if todo:
            fetch = [apt, "download", *_PACKAGES]
            done = subprocess.run(fetch, cwd=folder, capture_output=True, text=True, check=False)
            if done.returncode:
                pytest.skip(f"kcat is not installed, and apt-get does not have it: {done.stderr}")
            for package in sorted(folder.glob("*.deb")):
                subprocess.run([dpkg, "-x", str(package), str(folder)], check=True)
    return folder


@pytest.fixture
def kcat(broker: TailraceProcess) -> Kcat:
    installed = shutil.which("kcat")
    if installed is not None:
        return Kcat(Path(installed), None, broker)
    root = _unpacked()
    (library,) = root.glob("usr/lib/*/librdkafka.so.1")
    return Kcat(root / "usr/bin/kcat", library.parent, broker)


def test_produce_consume_and_look_up(kcat: Kcat, topic: str) -> None:
    lines = [f"k{n}:v{n}" for n in range(300)]
    sent = ["-P", "-t", topic, "-K:", "-z", "lz4", "-H", "h=x", "-X", "enable.idempotence=true"]
    kcat(*sent, stdin="\n".join(lines) + "\n")
    shown = ["-f", "%k:%s\n", "-e", "-q"]
    assert kcat("-C", "-t", topic, "-o", "beginning", *shown).splitlines() == lines
    assert kcat("-C", "-t", topic, "-p", "0", "-o", "-3", *shown).splitlines() == lines[-3:]
    assert kcat("-C", "-t", topic, "-c", "1", "-f", "%h %o", "-o", "beginning") == "h=x 0"
    assert kcat("-Q", "-t", f"{topic}:0:-2").split() == [topic, "[0]", "offset", "0"]
    assert kcat("-Q", "-t", f"{topic}:0:1").split() == [topic, "[0]", "offset", "0"]
    assert f'topic "{topic}" with 1 partitions' in kcat("-L")


def test_a_group_resumes(kcat: Kcat, topic: str) -> None:
    kcat("-P", "-t", topic, stdin="".join(f"v{n}\n" for n in range(6)))
    read = ["-f", "%s\n", "-q", "-X", "auto.offset.reset=earliest"]
    first = kcat("-G", topic, "-c", "4", *read, topic)
    assert first.split() == ["v0", "v1", "v2", "v3"]
    assert kcat("-G", topic, "-c", "2", *read, topic).split() == ["v4", "v5"]
