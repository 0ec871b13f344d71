"""`tailrace proxy`: run the serving layer of a cluster."""

import sys
from typing import Annotated, NamedTuple

import typer

from tailrace.core.runtime.collector import loading_modules
from tailrace.core.runtime.config import Assignment
from tailrace.processes.proxy_address import PROXY_PORT, READ_PROXY_PORT
from tailrace.processes.proxy_config import ReadProxyConfig, WriteProxyConfig
from tailrace.tools.endpoints import parse_endpoint
from tailrace.tools.options import Assignments, ConfigFile, ConfigJson, Insecure, ShowConfig
from tailrace.tools.settings import insecure_option, load_settings_of, show_settings

app = typer.Typer(add_completion=False, no_args_is_help=True)

Metadata = Annotated[
    str | None,
    typer.Option(
        "--metadata",
        "-m",
        metavar="URI",
        envvar="TAILRACE_METADATA",
        help="zk://HOST:PORT,HOST:PORT/ledgers: the bookies' cluster.",
    ),
]
Namespace = Annotated[
    str | None,
    typer.Option(
        "--namespace",
        "-n",
        metavar="URI",
        envvar="TAILRACE_NAMESPACE",
        help="distributedlog://HOST:PORT/messaging/NAME: the streams to serve.",
    ),
]
_LISTEN_HELP = "Where to listen; port 0 picks a free one."
WriteListen = Annotated[
    str | None,
    typer.Option(
        "--listen",
        metavar="HOST:PORT",
        help=_LISTEN_HELP,
        show_default=f"127.0.0.1:{PROXY_PORT}",
    ),
]
ReadListen = Annotated[
    str | None,
    typer.Option(
        "--listen",
        metavar="HOST:PORT",
        help=_LISTEN_HELP,
        show_default=f"127.0.0.1:{READ_PROXY_PORT}",
    ),
]
AdvertiseTo = Annotated[
    str | None,
    typer.Option(
        "--advertise",
        metavar="HOST:PORT",
        help="Where clients connect to.",
        show_default="where it listens",
    ),
]
Shard = Annotated[
    int | None,
    typer.Option(
        "--shard",
        metavar="N",
        min=0,
        help="The proxy's place among the proxies of its kind; each has its own.",
        show_default="0",
    ),
]
RegionName = Annotated[
    str | None,
    typer.Option(
        "--region",
        metavar="NAME",
        help="The region that the proxy is in.",
        show_default="by its host's name",
    ),
]


class _Given(NamedTuple):
    """What the options of both commands say."""

    metadata: str | None
    namespace: str | None
    listen: str | None
    advertise: str | None
    shard: int | None
    region: str | None


@app.callback()
def _main() -> None:
    """Run proxies: log streams for many thin clients, over gRPC."""


@app.command()
def write(
    metadata: Metadata = None,
    namespace: Namespace = None,
    listen: WriteListen = None,
    advertise: AdvertiseTo = None,
    shard: Shard = None,
    region: RegionName = None,
    insecure: Insecure = False,
    config: ConfigFile = None,
    assignments: Assignments = None,
    show_config: ShowConfig = False,
    as_json: ConfigJson = False,
) -> None:
    """Run a write proxy until SIGTERM or Ctrl-C: it owns streams, and writes them for clients.

    Settings come from defaults, then --config, then TAILRACE_* variables (dots as underscores,
    upper case), then --set, then the options here. A namespace that is not there yet is bound to
    the cluster's ledgers. It prints `ready: proxy=HOST:PORT` once the first request would be
    answered. SIGTERM has it complete its streams and hand them on first.
    """
    given = _Given(metadata, namespace, listen, advertise, shard, region)
    options = _options(given, PROXY_PORT) + insecure_option(insecure=insecure)
    loaded = load_settings_of(
        WriteProxyConfig, "tailrace proxy write", config, assignments or (), options
    )
    if show_config:
        show_settings(loaded, as_json=as_json)
        return
    with loading_modules():
        from tailrace.processes.proxy import run_write

    sys.exit(run_write(loaded.config))


@app.command()
def read(
    metadata: Metadata = None,
    namespace: Namespace = None,
    listen: ReadListen = None,
    advertise: AdvertiseTo = None,
    shard: Shard = None,
    region: RegionName = None,
    insecure: Insecure = False,
    config: ConfigFile = None,
    assignments: Assignments = None,
    show_config: ShowConfig = False,
    as_json: ConfigJson = False,
) -> None:
    """Run a read proxy until SIGTERM or Ctrl-C: it reads bookies once for all its readers.

    Settings come as those of `proxy write`. It prints `ready: proxy=HOST:PORT` once the first
    request would be answered.
    """
    given = _Given(metadata, namespace, listen, advertise, shard, region)
    options = _options(given, READ_PROXY_PORT) + insecure_option(insecure=insecure)
    loaded = load_settings_of(
        ReadProxyConfig, "tailrace proxy read", config, assignments or (), options
    )
    if show_config:
        show_settings(loaded, as_json=as_json)
        return
    with loading_modules():
        from tailrace.processes.proxy import run_read

    sys.exit(run_read(loaded.config))


def _options(said: _Given, port: int) -> list[Assignment]:
    """Return what the options set. Errors: CliError for an address."""

    def address(text: str | None, option: str) -> str | None:
        return None if text is None else str(parse_endpoint(text, option, port))

    given: dict[str, tuple[str, str | int | None]] = {
        "metadataServiceUri": ("--metadata", said.metadata),
        "namespaceUri": ("--namespace", said.namespace),
        "proxy.listener": ("--listen", address(said.listen, "--listen")),
        "proxy.advertised.listener": ("--advertise", address(said.advertise, "--advertise")),
        "proxy.shard": ("--shard", said.shard),
        "proxy.region": ("--region", said.region),
    }
    return [
        Assignment(key, value, f"{option} {value}")
        for key, (option, value) in given.items()
        if value is not None
    ]
