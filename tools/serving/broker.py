"""`tailrace broker`: run a broker over the bookies of a cluster."""

import sys
from typing import Annotated

import typer

from tailrace.core.runtime.collector import loading_modules
from tailrace.core.runtime.config import Assignment
from tailrace.processes.broker_config import BrokerProcessConfig
from tailrace.tools.endpoints import listener_options
from tailrace.tools.options import (
    Advertise,
    Assignments,
    ConfigFile,
    ConfigJson,
    Insecure,
    Listen,
    ShowConfig,
    TestFaults,
)
from tailrace.tools.serving.faults import fault_control
from tailrace.tools.settings import insecure_option, load_settings_of, show_settings

app = typer.Typer(add_completion=False)


@app.command()
def broker(
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
            help="distributedlog://HOST:PORT/messaging/NAME: where topics and their logs lie.",
        ),
    ] = None,
    listen: Listen = None,
    advertise: Advertise = None,
    test_faults: TestFaults = None,
    insecure: Insecure = False,
    config: ConfigFile = None,
    assignments: Assignments = None,
    show_config: ShowConfig = False,
    as_json: ConfigJson = False,
) -> None:
    """Run a broker that keeps its topics on the bookies of a cluster, until SIGTERM or Ctrl-C.

    Settings come from defaults, then --config, then TAILRACE_* variables (dots as underscores,
    upper case), then --set, then the options here. A namespace that is not there yet is bound to
    the cluster's ledgers. It prints `ready: bootstrap=HOST:PORT` once the first request would be
    answered.
    """
    options = _options(metadata, namespace) + listener_options(listen, advertise)
    options += insecure_option(insecure=insecure)
    loaded = load_settings_of(
        BrokerProcessConfig, "tailrace broker", config, assignments or (), options
    )
    if show_config:
        show_settings(loaded, as_json=as_json)
        return
    faults = fault_control(test_faults)
    with loading_modules():
        from tailrace.processes.broker import run

    sys.exit(run(loaded.config, faults))


def _options(metadata: str | None, namespace: str | None) -> list[Assignment]:
    given = []
    if metadata is not None:
        given.append(Assignment("metadataServiceUri", metadata, f"--metadata {metadata}"))
    if namespace is not None:
        given.append(Assignment("namespaceUri", namespace, f"--namespace {namespace}"))
    return given
