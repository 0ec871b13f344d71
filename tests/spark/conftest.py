"""One Spark session for all Spark tests of a worker: starting it is most of their time."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tailrace.spark import ConnectorUnavailable, build_session
from tests.java.jars import QUICK_JVM

JARS = Path(__file__).resolve().parents[2] / ".cache" / "spark-jars"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark all Spark tests, and let the libraries they run on warn."""
    for item in items:
        if "tests/spark" in str(item.path):
            item.add_marker(pytest.mark.spark)
            item.add_marker(pytest.mark.filterwarnings("ignore"))


@pytest.fixture(scope="session", autouse=True)
def small_jvms() -> Iterator[None]:
    """Have Spark's JVMs, those of commands too, compile quickly: none runs for a minute."""
    with pytest.MonkeyPatch.context() as patch:
        for variable in ("SPARK_SUBMIT_OPTS", "SPARK_LAUNCHER_OPTS"):
            patch.setenv(variable, " ".join(QUICK_JVM))
        yield


@pytest.fixture(scope="session")
def spark(small_jvms: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A local session with the connector."""
    if shutil.which("java") is None:
        pytest.skip("java is not installed")
    try:
        folder = tmp_path_factory.mktemp("spark")
        session = build_session(
            "tests",
            master="local[2]",
            jars=JARS,
            conf={
                "spark.sql.shuffle.partitions": "2",
                "spark.driver.memory": "1g",
                "spark.sql.warehouse.dir": str(folder / "warehouse"),
                "spark.driver.extraJavaOptions": f"-Dderby.system.home={folder}",
            },
        )
    except ConnectorUnavailable as missing:
        pytest.skip(str(missing))
    yield session
    session.stop()
