"""`tailrace start`: metadata, one bookie and one broker in this process."""

import sys

import typer

from tailrace.core.runtime.collector import loading_modules
from tailrace.processes.secure_config import SECURED_LISTENER
from tailrace.tools.endpoints import listener_options
from tailrace.tools.options import (
    Advertise,
    Assignments,
    ConfigFile,
    ConfigJson,
    Insecure,
    Listen,
    Secure,
    ShowConfig,
    StandaloneData,
    TestFaults,
)
from tailrace.tools.serving.faults import fault_control
from tailrace.tools.settings import (
    data_option,
    insecure_option,
    load_settings,
    secure_option,
    show_settings,
)

app = typer.Typer(add_completion=False)


@app.command()
def start(
    data: StandaloneData = None,
    listen: Listen = None,
    advertise: Advertise = None,
    test_faults: TestFaults = None,
    secure: Secure = False,
    insecure: Insecure = False,
    config: ConfigFile = None,
    assignments: Assignments = None,
    show_config: ShowConfig = False,
    as_json: ConfigJson = False,
) -> None:
    """Run a broker: one process, no other service needed.

    Settings come from defaults, then --config, then TAILRACE_* variables (dots as underscores,
    upper case), then --set, then the options here. It prints `ready: bootstrap=HOST:PORT` once the
    first request would be answered. SIGTERM or Ctrl-C ends it cleanly.
    """
    name = SECURED_LISTENER if secure else "PLAINTEXT"
    options = data_option(data) + listener_options(listen, advertise, name)
    options += secure_option(secure=secure) + insecure_option(insecure=insecure)
    loaded = load_settings(config, assignments or (), options)
    if show_config:
        show_settings(loaded, as_json=as_json)
        return
    faults = fault_control(test_faults)
    with loading_modules():
        from tailrace.processes.standalone import run

    sys.exit(run(loaded.config, faults))
