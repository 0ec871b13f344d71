"""`tailrace txn`: list, describe and find hanging transactions, and abort one that hangs."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tailrace.core.runtime.clock import SystemClock
from tailrace.tools.errors import CliError, Exit
from tailrace.tools.options import (
    BOOTSTRAP,
    TIMEOUT_S,
    Bootstrap,
    CommandConfig,
    Json,
    Properties,
    Timeout,
)
from tailrace.tools.output import Column, note, show_json, show_rows

if TYPE_CHECKING:
    from tailrace.tools.transactions.txns_admin import TransactionsAdmin

app = typer.Typer(no_args_is_help=True, add_completion=False)

MINUTES_MIN = 15
"""transaction.max.timeout.ms: what is open for longer should have been aborted by now."""


@app.callback()
def txn() -> None:
    """List, describe and find hanging transactions, and abort one that hangs."""


@app.command("list")
def list_transactions(
    bootstrap: Bootstrap = BOOTSTRAP,
    states: Annotated[
        list[str] | None, typer.Option("--state", metavar="STATE", help="Ongoing, Empty, ...")
    ] = None,
    producer_ids: Annotated[
        list[int] | None,
        typer.Option("--producer-id", metavar="ID", min=0, max=2**63 - 1, help="Of this producer."),
    ] = None,
    open_ms: Annotated[
        int,
        typer.Option(
            "--open-longer-than",
            metavar="MS",
            min=-1,
            max=2**63 - 1,
            help="Begun longer ago than this.",
        ),
    ] = -1,
    pattern: Annotated[
        str | None, typer.Option("--pattern", metavar="REGEX", help="The whole id matches (RE2).")
    ] = None,
    as_json: Json = False,
    command_config: CommandConfig = None,
    properties: Properties = None,
    timeout_s: Timeout = TIMEOUT_S,
) -> None:
    """List transactional ids with their producer and state."""
    from tailrace.protocol.kafka.messages.list_transactions import ListTransactionsRequest

    request = ListTransactionsRequest(
        state_filters=states or [],
        producer_id_filters=producer_ids or [],
        duration_filter=open_ms,
        transactional_id_pattern=pattern,
    )
    with _admin(bootstrap, properties, timeout_s, command_config) as transactions:
        rows = transactions.list_all(request)
    columns = [
        Column("transactional_id"),
        Column("coordinator", right=True),
        Column("producer_id", right=True),
        Column("state"),
    ]
    show_rows(rows, columns, as_json=as_json)


@app.command()
def describe(
    names: Annotated[list[str], typer.Argument(metavar="TRANSACTIONAL_ID...")],
    bootstrap: Bootstrap = BOOTSTRAP,
    as_json: Json = False,
    command_config: CommandConfig = None,
    properties: Properties = None,
    timeout_s: Timeout = TIMEOUT_S,
) -> None:
    """Describe transactional ids: state, producer, timeout, and the partitions in it."""
    now_ms = SystemClock().now_ms()
    with _admin(bootstrap, properties, timeout_s, command_config) as transactions:
        found = [transactions.describe(name, now_ms) for name in names]
    if as_json:
        show_json(found)
        return
    for number, described in enumerate(found):
        if number:
            print()
        for name, value in described.items():
            text = ",".join(value) if isinstance(value, list) else value
            print(f"{name:17}{'-' if text in (None, '') else text}")


@app.command()
def hanging(
    bootstrap: Bootstrap = BOOTSTRAP,
    topics: Annotated[
        list[str] | None, typer.Option("--topic", "-t", help="Only here; else in all topics.")
    ] = None,
    partition: Annotated[
        int | None, typer.Option("--partition", "-p", help="Only in this partition of each.")
    ] = None,
    minutes: Annotated[
        int,
        typer.Option(
            "--max-transaction-timeout", metavar="MINUTES", help="Silent for at least so long."
        ),
    ] = MINUTES_MIN,
    as_json: Json = False,
    command_config: CommandConfig = None,
    properties: Properties = None,
    timeout_s: Timeout = TIMEOUT_S,
) -> None:
    """Find transactions that hold up readers, and that no coordinator will ever end.

    One that a coordinator has, and should have ended a minute ago, is shown with its id and state.
    """
    now_ms = SystemClock().now_ms()
    with _admin(bootstrap, properties, timeout_s, command_config) as transactions:
        found = transactions.hanging(topics or [], partition, now_ms - minutes * 60_000, now_ms)
    names = ("producer_id", "producer_epoch", "start_offset", "idle_minutes")
    columns = [Column("topic"), Column("partition", right=True)]
    columns += [Column(name, right=True) for name in names]
    columns += [Column("transactional_id"), Column("state")]
    show_rows([each.row(now_ms) for each in found], columns, as_json=as_json)


@app.command()
def abort(
    topic: Annotated[str, typer.Option("--topic", "-t", help="Where it hangs.")],
    partition: Annotated[int, typer.Option("--partition", "-p", help="Where it hangs.")],
    start_offset: Annotated[
        int, typer.Option("--start-offset", help="Its first offset, as `txn hanging` shows it.")
    ],
    bootstrap: Bootstrap = BOOTSTRAP,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Do not ask, although a person could answer.")
    ] = False,
    command_config: CommandConfig = None,
    properties: Properties = None,
    timeout_s: Timeout = TIMEOUT_S,
) -> None:
    """Abort a transaction that hangs in a partition. Its coordinator is not asked."""
    from tailrace.protocol.ids import TopicPartition

    if partition < 0:
        raise CliError(
            f"{partition} is no partition", place="--partition", remedy="0...", code=Exit.USAGE
        )
    with _admin(bootstrap, properties, timeout_s, command_config) as transactions:
        found = transactions.starting_at(TopicPartition(topic, partition), start_offset)
        what = f"the transaction of producer {found.producer_id} in {found.partition}"
        if not yes and sys.stdin.isatty() and sys.stderr.isatty():
            typer.confirm(f"Abort {what}?", abort=True, err=True)
        transactions.abort(found)
    note(f"{what}: aborted")


def _admin(
    bootstrap: str, properties: list[str] | None, timeout_s: float, command_config: Path | None
) -> "TransactionsAdmin":
    from tailrace.tools.clients.librdkafka import target
    from tailrace.tools.transactions.txns_admin import TransactionsAdmin

    return TransactionsAdmin(target(bootstrap, properties or [], timeout_s, command_config))
