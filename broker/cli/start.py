"""`tailrace start`: metadata, one bookie and one broker in this process."""

import sys
from pathlib import Path

import typer

from broker.cli.endpoints import listener_options
from broker.cli.faults import fault_control
from broker.cli.options import TestFaults
from broker.cli.settings import data_option, load_settings, show_settings

app = typer.Typer(add_completion=False)


@app.command()
def start(
    data: Path = typer.Option(
        None, "--data", metavar="DIR", help="Where everything lies. [default: ./tailrace-data]"
    ),
    listen: str = typer.Option(
        None,
        "--listen",
        metavar="HOST:PORT",
        help="Where to listen; port 0 picks a free one. Several: as the setting `listeners`. "
        "[default: 127.0.0.1:9092]",
    ),
    advertise: str = typer.Option(
        None,
        "--advertise",
        metavar="HOST:PORT",
        help="Where clients are told to connect. [default: where it listens]",
    ),
    config: Path = typer.Option(
        None, "--config", metavar="FILE.toml", help="Settings by their names."
    ),
    assignments: list[str] = typer.Option(
        [], "--set", metavar="KEY=VALUE", help="One setting; wins over file and environment."
    ),
    test_faults: TestFaults = None,
    show_config: bool = typer.Option(
        False, "--show-config", help="Print every setting with its source and meaning, and end."
    ),
    as_json: bool = typer.Option(False, "--json", help="With --show-config: as JSON."),
) -> None:
    """Run a broker: one process, no other service needed.

    Settings come from defaults, then --config, then TAILRACE_* variables (dots as underscores,
    upper case), then --set, then the options here. It prints `ready: bootstrap=HOST:PORT` once the
    first request would be answered. SIGTERM or Ctrl-C ends it cleanly.
    """
    loaded = load_settings(
        config, assignments, data_option(data) + listener_options(listen, advertise)
    )
    if show_config:
        show_settings(loaded, as_json=as_json)
        return
    faults = fault_control(test_faults)
    from broker.standalone import run

    sys.exit(run(loaded.config, faults))
