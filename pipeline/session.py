"""A Spark session that has Spark's own Kafka source on board."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import SparkSession

from tailrace.pipeline.jars import connector_jars


def build_session(
    name: str,
    *,
    master: str = "local[*]",
    jars: Path | None = None,
    conf: Mapping[str, str] | None = None,
) -> SparkSession:
    """Return a session with the Kafka connector on its class path.

    `jars`: the folder that holds or receives the connector jars. `conf` wins over what is set here.
    Times are UTC, so that timestamps mean the same on every machine.
    Errors: ConnectorUnavailable. The caller stops the session.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # workers take `python3` from PATH else
    builder = (
        SparkSession.builder.appName(name)
        .master(master)
        .config("spark.jars", ",".join(str(jar) for jar in connector_jars(jars)))
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
    )
    for key, value in (conf or {}).items():
        builder = builder.config(key, value)
    return builder.getOrCreate()
