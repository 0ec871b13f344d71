"""`tailrace proxy`: run the serving layer of a cluster."""

import sys
from typing import Annotated

import typer

from tailrace.core.runtime.collector import loading_modules
from tailrace.core.runtime.config import Assignment
from tailrace.processes.proxy_address import PROXY_PORT
from tailrace.processes.proxy_config import ProxyProcessConfig
from tailrace.tools.endpoints import parse_endpoint
from tailrace.tools.options import Assignments, ConfigFile, ConfigJson, ShowConfig
from tailrace.tools.settings import load_settings_of, show_settings

app = typer.Typer(add_completion=False, no_args_is_help=True)


@app.callback()
def _main() -> None:
    """Run proxies: they own log streams and write them for many clients."""


@app.command()
def write(
    metadata: Annotated[
        str | None,
        typer.Option(
            "--metadata",
            "-m",
            metavar="URI",
            envvar="TAILRACE_METADATA",
            help="zk://HOST:PORT,HOST:PORT/ledgers: the bookies' cluster.",
        ),
    ] = None,
    namespace: Annotated[
        str | None,
        typer.Option(
            "--namespace",
            "-n",
            metavar="URI",
            envvar="TAILRACE_NAMESPACE",
            help="distributedlog://HOST:PORT/messaging/NAME: the streams to serve.",
        ),
    ] = None,
    listen: Annotated[
        str | None,
        typer.Option(
            "--listen",
            metavar="HOST:PORT",
            help="Where to listen; port 0 picks a free one.",
            show_default=f"127.0.0.1:{PROXY_PORT}",
        ),
    ] = None,
    advertise: Annotated[
        str | None,
        typer.Option(
            "--advertise",
            metavar="HOST:PORT",
            help="Where clients connect to.",
            show_default="where it listens",
        ),
    ] = None,
    shard: Annotated[
        int | None,
        typer.Option(
            "--shard",
            metavar="N",
            min=0,
            help="The proxy's place among the proxies; each has its own.",
            show_default="0",
        ),
    ] = None,
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
    options = _options(
        {
            "metadataServiceUri": ("--metadata", metadata),
            "namespaceUri": ("--namespace", namespace),
            "proxy.listener": ("--listen", _address(listen, "--listen")),
            "proxy.advertised.listener": ("--advertise", _address(advertise, "--advertise")),
            "proxy.shard": ("--shard", shard),
        }
    )
    loaded = load_settings_of(
        ProxyProcessConfig, "tailrace proxy write", config, assignments or (), options
    )
    if show_config:
        show_settings(loaded, as_json=as_json)
        return
    with loading_modules():
        from tailrace.processes.proxy import run

    sys.exit(run(loaded.config))


def _address(text: str | None, option: str) -> str | None:
    """Return HOST:PORT; the port may be left out. Errors: CliError."""
    return None if text is None else str(parse_endpoint(text, option, PROXY_PORT))


def _options(given: dict[str, tuple[str, str | int | None]]) -> list[Assignment]:
    return [
        Assignment(key, value, f"{option} {value}")
        for key, (option, value) in given.items()
        if value is not None
    ]
