"""The launcher: the only name that the wheel puts at the top of site-packages.

The packages of the house have generic names (`core`, `protocol`, ...), so they travel below this
package, in `_house`, and only a process that was started as `tailrace` has that folder on its path.
A user's own `core` is never shadowed in the user's processes. In a source checkout the packages
lie beside this folder.
"""

import sys
from pathlib import Path

_HERE = Path(__file__).resolve().parent


def house() -> Path:
    """Return the folder that holds the packages: `_house` in a wheel, the checkout otherwise."""
    packed = _HERE / "_house"
    return packed if packed.is_dir() else _HERE.parent


def main() -> None:
    """Run the `tailrace` command."""
    sys.path.insert(0, str(house()))
    from core.runtime.collector import loading_modules  # the path is set only now

    with loading_modules():
        from broker.cli.main import run

    run()
