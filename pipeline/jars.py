"""The connector jars of Spark's Kafka source: fetched once through Maven, offline after that."""

import fcntl
import os
import shutil
import subprocess
from pathlib import Path

_POM = Path(__file__).with_name("connector-pom.xml")
_JARS = (
    "spark-sql-kafka-0-10_2.13-4.2.0.jar",
    "spark-token-provider-kafka-0-10_2.13-4.0.0.jar",
    "kafka-clients-3.9.2.jar",
    "commons-pool2-2.13.1.jar",
)
_MAVEN_TIMEOUT_S = 300


class ConnectorUnavailable(Exception):
    """The connector jars are not here and cannot be fetched; the message says what to do."""


def default_folder() -> Path:
    """Return where jars are kept: below `XDG_CACHE_HOME`, else `~/.cache`."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "tailrace" / "spark-4.2.0"


def connector_jars(folder: Path | None = None) -> list[Path]:
    """Return the four jars, fetching what is missing.

    Several processes may ask at once: one fetches, the others wait for it.
    Errors: ConnectorUnavailable if Maven is missing, fails, or takes more than five minutes.
    Cost: none when the jars are there; about ten seconds and 10 MB the first time.
    """
    folder = folder or default_folder()
    jars = [folder / name for name in _JARS]
    if not all(jar.exists() for jar in jars):
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not all(jar.exists() for jar in jars):
                _fetch(folder)
    missing = [jar.name for jar in jars if not jar.exists()]
    if missing:
        raise ConnectorUnavailable(f"Maven did not bring {', '.join(missing)} into {folder}")
    return jars


def _fetch(folder: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise ConnectorUnavailable(
            f"Spark's Kafka connector is not in {folder} and `mvn` is not installed to fetch it; "
            "install Maven, or put the four jars there by hand: " + ", ".join(_JARS)
        )
    command = [maven, "-q", "-B", "-f", str(_POM), "dependency:copy-dependencies"]
    try:
        done = subprocess.run(
            [*command, f"-DoutputDirectory={folder}"],
            capture_output=True,
            text=True,
            timeout=_MAVEN_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as late:
        raise ConnectorUnavailable(f"Maven took more than {_MAVEN_TIMEOUT_S} s") from late
    if done.returncode:
        raise ConnectorUnavailable(f"Maven failed ({done.returncode}): {done.stdout[-2000:]}")
