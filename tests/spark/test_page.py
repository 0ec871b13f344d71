"""docs/spark.md, on a broker and a Spark of its own."""

from pathlib import Path

from pyspark.sql import SparkSession

from tailrace.spark import connector_jars
from tests.docs.page import run_page
from tests.process import TailraceProcess
from tests.spark.conftest import JARS


def test_its_examples_run(broker: TailraceProcess, spark: SparkSession, tmp_path: Path) -> None:
    assert connector_jars(JARS), "the session has brought them"
    cache = tmp_path / "tailrace"
    cache.mkdir()
    (cache / "spark-4.2.0").symlink_to(JARS)
    where = {"TAILRACE_BOOTSTRAP": broker.bootstrap, "XDG_CACHE_HOME": str(tmp_path)}
    printed = run_page("spark.md", where, tmp_path)
    assert "100 records, 0 to 99" in printed
    assert "live: 7, hash " in printed
