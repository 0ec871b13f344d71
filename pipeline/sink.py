"""A DataFrame into a topic, by Spark's own Kafka sink (at least once, idempotent producers)."""

from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

_SINK_COLUMNS = {"key": "binary", "value": "binary", "partition": "int"}


class NoValueColumn(ValueError):
    """The DataFrame has no `value` column, so there is nothing to send."""


def write_topic(
    records: DataFrame, bootstrap: str, topic: str, options: Mapping[str, str] | None = None
) -> None:
    """Send every row to `topic`: its value, and its key, headers and partition if it has them.

    Strings and binaries go as they are; other types as their text. Spark runs a failed task again,
    so a row may arrive twice; it never gets lost. Errors: NoValueColumn.
    """
    if "value" not in records.columns:
        raise NoValueColumn(f"no column `value` among {', '.join(records.columns)}")
    columns = [
        f.col(name).cast("string").cast(kind)
        if kind == "binary" and not _is_raw(records, name)
        else f.col(name).cast(kind)
        for name, kind in _SINK_COLUMNS.items()
        if name in records.columns
    ]
    if "headers" in records.columns:
        columns.append(f.col("headers"))
    writer = records.select(*columns).write.format("kafka")
    writer = writer.option("kafka.bootstrap.servers", bootstrap).option("topic", topic)
    if "headers" in records.columns:
        writer = writer.option("includeHeaders", "true")
    writer.options(**(options or {})).save()


def _is_raw(records: DataFrame, name: str) -> bool:
    return dict(records.dtypes)[name] in {"binary", "string"}
