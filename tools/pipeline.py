"""`tailrace pipeline`: Spark jobs between topics and Parquet files."""

import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from tailrace.tools.errors import CliError, Exit
from tailrace.tools.options import TIMEOUT_S, CommandConfig, Json, Timeout
from tailrace.tools.output import Column, note, show_rows

if TYPE_CHECKING:
    from tailrace.pipeline.offsets import Bound

_BOOTSTRAP = typer.Option(
    "127.0.0.1:9092", "--bootstrap", "-b", envvar="TAILRACE_BOOTSTRAP", help="Broker to connect to."
)
_MASTER = typer.Option("local[*]", "--master", help="Spark master.")
_JARS = typer.Option(
    None,
    "--jars",
    metavar="DIR",
    help="Where the connector jars are, or go.",
    show_default="a cache",
)
_OPTION = typer.Option(
    [], "--option", metavar="KEY=VALUE", help="An option of Spark's Kafka source or sink."
)
_CONF = typer.Option([], "--conf", metavar="KEY=VALUE", help="A Spark setting.")

app = typer.Typer(no_args_is_help=True, add_completion=False)


@app.callback()
def _pipeline() -> None:
    """Move records between topics and Parquet files, by Spark's own Kafka source and sink."""


@app.command()
def ingest(
    topics: str = typer.Argument(help="Topics, joined by commas."),
    output: Path = typer.Argument(help="Folder of Parquet files; they are appended to."),
    bootstrap: str = _BOOTSTRAP,
    command_config: CommandConfig = None,
    start: str = typer.Option("start", "--from", help="start, end, @MILLISECONDS or JSON offsets."),
    end: str = typer.Option("end", "--to", help="The same, for a batch."),
    checkpoint: Path | None = typer.Option(
        None, "--checkpoint", metavar="DIR", help="Run as a stream that resumes from here."
    ),
    interval_s: float | None = typer.Option(
        None, "--interval", min=0, help="With --checkpoint: run for ever, a batch each so many s."
    ),
    master: str = _MASTER,
    jars: Path | None = _JARS,
    options: list[str] = _OPTION,
    conf: list[str] = _CONF,
    as_json: bool = typer.Option(False, "--json", help="Print what was written as JSON."),
) -> None:
    """Read topics into Parquet: key, value, headers, offset and timestamp of every record.

    Without --checkpoint: one batch, and a table of what it wrote. With it: everything that is
    there, each record once over any number of runs; with --interval for ever.
    """
    _need_spark()
    from tailrace.pipeline.ingest import ingest_batch, ingest_stream
    from tailrace.pipeline.source import TopicSource

    if interval_s is not None and checkpoint is None:
        raise CliError("--interval needs --checkpoint", code=Exit.USAGE)
    source = TopicSource(
        bootstrap=bootstrap,
        topics=topics,
        start=_bound(start, "--from"),
        end=_bound(end, "--to"),
        options=_options(command_config, options),
    )
    _check_reachable(bootstrap, command_config)
    with _session("tailrace ingest", master, jars, _pairs(conf, "--conf")) as spark:
        if checkpoint is None:
            rows = [asdict(found) for found in ingest_batch(spark, source, output)]
            columns = [Column(name, right=name not in {"topic"}) for name in _RANGE]
            show_rows(rows, columns, as_json=as_json)
            return
        query = ingest_stream(spark, source, output, checkpoint, interval_s=interval_s)
        note(f"ingesting {topics} into {output}; Ctrl-C stops, the checkpoint resumes")
        query.awaitTermination()


_RANGE = ("topic", "partition", "first_offset", "last_offset", "records")


@app.command()
def sink(
    files: str = typer.Argument(help="Parquet files or a folder of them."),
    topic: str = typer.Argument(help="Topic to write to."),
    bootstrap: str = _BOOTSTRAP,
    command_config: CommandConfig = None,
    master: str = _MASTER,
    jars: Path | None = _JARS,
    options: list[str] = _OPTION,
    conf: list[str] = _CONF,
) -> None:
    """Write the rows of Parquet files into a topic: column value, and key, headers, partition.

    At least once: Spark runs a failed task again.
    """
    _need_spark()
    from tailrace.pipeline.sink import NoValueColumn, write_topic

    more = _options(command_config, options)
    _check_reachable(bootstrap, command_config)
    with _session("tailrace sink", master, jars, _pairs(conf, "--conf")) as spark:
        try:
            rows = spark.read.parquet(files)
            write_topic(rows, bootstrap, topic, more)
        except NoValueColumn as error:
            raise CliError(str(error), place=files) from error


@app.command()
def restore(
    topic: str = typer.Argument(help="The topic: a changelog, compacted or not."),
    output: Path = typer.Argument(help="New folder of Parquet files, one folder a partition."),
    bootstrap: str = _BOOTSTRAP,
    command_config: CommandConfig = None,
    timeout: Timeout = TIMEOUT_S,
    master: str = _MASTER,
    jars: Path | None = _JARS,
    options: list[str] = _OPTION,
    conf: list[str] = _CONF,
    as_json: Json = False,
) -> None:
    """Restore a topic into Parquet: the latest value of each key, on data larger than memory.

    Reads from the start to the last stable offset as they are now, and prints the same hash as
    `tailrace restore` does for the same range.
    """
    _need_spark()
    from tailrace.pipeline.restore import restore_topic
    from tailrace.pipeline.source import TopicSource
    from tailrace.pipeline.stable_range import NoTopic, stable_ranges

    if output.exists():
        raise CliError("the output is there already", place=str(output), remedy="name a new folder")
    _check_reachable(bootstrap, command_config)
    try:
        ranges = stable_ranges(bootstrap, topic, timeout, command_config)
    except NoTopic as error:
        raise CliError(str(error), place=f"--bootstrap {bootstrap}") from error
    source = TopicSource(
        bootstrap=bootstrap, topics=topic, options=_options(command_config, options)
    )
    with _session("tailrace restore", master, jars, _pairs(conf, "--conf")) as spark:
        rows = [asdict(each) for each in restore_topic(spark, source, ranges, output)]
    show_rows(rows, [Column(name, right=True) for name in _RESTORED], as_json=as_json)


_RESTORED = (
    *("partition", "start", "end", "records", "tombstones", "keyless", "absent"),
    *("live_keys", "live_bytes", "hash"),
)


def _need_spark() -> None:
    if importlib.util.find_spec("pyspark") is None:
        raise CliError("PySpark is not installed", remedy="pip install pyspark==4.2.0")


@contextmanager
def _session(name: str, master: str, jars: Path | None, conf: dict[str, str]) -> Iterator[Any]:
    from tailrace.pipeline.jars import ConnectorUnavailable
    from tailrace.pipeline.session import build_session

    try:
        spark = build_session(name, master=master, jars=jars, conf=conf)
    except ConnectorUnavailable as error:
        raise CliError(str(error)) from error
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    try:
        yield spark
    except (PySparkException, Py4JError) as error:
        raise CliError(_words(error), place="Spark") from error
    finally:
        spark.stop()


def _words(error: Exception) -> str:
    """Return what a person needs of Spark's error: its innermost cause, else its first line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    return next(iter(causes[-1:] or lines), type(error).__name__)


def _check_reachable(bootstrap: str, command_config: Path | None) -> None:
    """Fail at once when no broker accepts connections; Spark would retry. Errors: CliError."""
    from tailrace.tools.clients.librdkafka import check_reachable, target

    check_reachable(target(bootstrap, (), TIMEOUT_S, command_config))


def _bound(text: str, option: str) -> "Bound":
    from tailrace.pipeline.offsets import BadOffsets, parse_bound

    try:
        return parse_bound(text)
    except BadOffsets as error:
        raise CliError(str(error), place=option, code=Exit.USAGE) from error


def _options(command_config: Path | None, given: list[str]) -> dict[str, str]:
    """Return options of Spark's source or sink; those that were typed win. Errors: CliError."""
    typed = _pairs(given, "--option")
    if command_config is None:
        return typed
    from tailrace.core.runtime.config import ConfigError
    from tailrace.pipeline.client_options import kafka_options

    try:
        return kafka_options(command_config) | typed
    except ConfigError as error:
        raise CliError(str(error), place="--command-config", code=Exit.USAGE) from error


def _pairs(given: list[str], option: str) -> dict[str, str]:
    pairs = {}
    for text in given:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise CliError(f"{text!r} is no KEY=VALUE", place=option, code=Exit.USAGE)
        pairs[key] = value
    return pairs
