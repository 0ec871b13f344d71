"""`tailrace log`: log streams, and the partitions that they are; what is in them, and their health.

Two ways to say where: --namespace for the logs of a cluster, whatever wrote them; else the files of
a standalone broker, read only.
"""

from typing import Annotated

import typer

from tailrace.tools.cluster.cluster_access import LedgersOfNamespace
from tailrace.tools.errors import CliError, Exit
from tailrace.tools.logs import log_health, log_owner
from tailrace.tools.logs.log_stored import Wanted, dump_stored, show_stored
from tailrace.tools.logs.log_streams import count, create, dump_stream, list_logs, show_stream
from tailrace.tools.logs.position_spec import parse_dlsn
from tailrace.tools.options import Json, StandaloneConfigFile, StandaloneData

app = typer.Typer(no_args_is_help=True, add_completion=False)

Log = Annotated[
    str, typer.Argument(metavar="LOG", help="A log's name; without --namespace TOPIC/PARTITION.")
]
MaybeNamespace = Annotated[
    str | None,
    typer.Option(
        "--namespace",
        "-n",
        metavar="URI",
        envvar="TAILRACE_NAMESPACE",
        help="distributedlog://HOST:PORT/messaging/NAME, for a log of a cluster.",
    ),
]


@app.callback()
def log() -> None:
    """Look into logs, make and mend them. A standalone broker's are looked at only."""


@app.command()
def show(
    log: Log,
    namespace: MaybeNamespace = None,
    metadata: LedgersOfNamespace = None,
    data: StandaloneData = None,
    config: StandaloneConfigFile = None,
    as_json: Json = False,
) -> None:
    """List the segments: state, ledger, positions, records, completion.

    Of a partition of a standalone broker a completed segment says itself what it holds; the others
    are read through.
    """
    if namespace is None or data or config:
        show_stored(log, data, config, as_json=as_json)
    else:
        show_stream(namespace, metadata, log, as_json=as_json)


@app.command()
def dump(
    log: Log,
    namespace: MaybeNamespace = None,
    metadata: LedgersOfNamespace = None,
    data: StandaloneData = None,
    config: StandaloneConfigFile = None,
    start: Annotated[
        int,
        typer.Option("--from", metavar="OFFSET", min=0, help="First offset, or txid, of interest."),
    ] = 0,
    dlsn: Annotated[
        str | None,
        typer.Option("--dlsn", metavar="LSSN,ENTRY,SLOT", help="First position, in a namespace."),
    ] = None,
    segment: Annotated[
        int | None, typer.Option("--segment", metavar="LSSN", help="Only this segment.")
    ] = None,
    count: Annotated[
        int | None, typer.Option("--count", "-c", min=0, help="At most so many lines.")
    ] = None,
    records: Annotated[
        bool, typer.Option("--records", help="A line for each Kafka record too (standalone).")
    ] = False,
    as_hex: Annotated[
        bool, typer.Option("--hex", help="Payloads whole and in hex (in a namespace).")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per line.")] = False,
) -> None:
    """Print records with their positions; checksums are verified.

    Of a standalone broker: entries and batch headers, control records too. In a namespace: what a
    reader gets, up to the last confirmed record.
    """
    wanted = Wanted(start, segment, count)
    if namespace is None or data or config:
        _only(not dlsn and not as_hex, "--dlsn and --hex are for the logs of a --namespace")
        dump_stored(log, data, config, wanted, records=records, as_json=as_json)
    else:
        _only(not records, "--records is for the data of a standalone broker")
        begin = parse_dlsn(dlsn) if dlsn else None
        dump_stream(namespace, metadata, log, wanted, begin, as_hex=as_hex, as_json=as_json)


def _only(holds: bool, cause: str) -> None:
    if not holds:
        raise CliError(cause, code=Exit.USAGE)


app.command("create")(create)
app.command("list")(list_logs)
app.command("count")(count)
app.command("rename")(log_owner.rename)
app.command("delete")(log_owner.delete)
app.command("truncate")(log_owner.truncate)
app.command("recover")(log_owner.recover)
app.command("repair-seqno")(log_owner.repair_seqno)
app.command("inspect")(log_health.inspect)
app.command("check")(log_health.check)
