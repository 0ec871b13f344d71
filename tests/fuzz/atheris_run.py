"""libFuzzer's loop in a process of its own: `python -m tests.fuzz.atheris_run TARGET LIBFUZZER...`.

TARGET `all`: the first byte of an input chooses the target. atheris ends the process by itself: 0
if the runs are over, 77 if an input showed a fault, which is printed.
"""

import sys

import atheris

from tests.rooms import OWN_PROCESSES

with atheris.instrument_imports(include=list(OWN_PROCESSES)):
    from tests.fuzz.judge import judge
    from tests.fuzz.targets import TARGETS


def main() -> None:
    """Run until libFuzzer has enough."""
    name, *options = sys.argv[1:]
    targets = list(TARGETS.values())

    def run_one(data: bytes) -> None:
        judge(TARGETS[name], data)

    def run_any(data: bytes) -> None:
        if data:
            judge(targets[data[0] % len(targets)], data[1:])

    atheris.Setup([sys.argv[0], *options], run_any if name == "all" else run_one)
    atheris.Fuzz()


main()
