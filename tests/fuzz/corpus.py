"""Inputs that are kept: one file a target, one input a line, in hexadecimal, short ones first."""

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from tests.fuzz.coverage import Counted, Edge, TooManySteps
from tests.fuzz.judge import STEPS_BASE
from tests.fuzz.target import Target

FOLDER: Final = Path(__file__).parent / "corpus"
BYTES_MAX: Final = 12_000
"""Of the inputs of one target that are kept."""


def kept(target: Target) -> list[bytes]:
    """Return the kept inputs."""
    path = FOLDER / f"{target.name}.hex"
    if not path.exists():
        return []
    return [bytes.fromhex(line) for line in path.read_text(encoding="ascii").splitlines()]


def keep(target: Target, inputs: Iterable[bytes]) -> None:
    """Replace them."""
    text = "".join(f"{data.hex()}\n" for data in inputs)
    (FOLDER / f"{target.name}.hex").write_text(text, encoding="ascii")


def starting_points(target: Target) -> list[bytes]:
    """Return what a run begins with: seeds and kept inputs."""
    return list(dict.fromkeys([*target.seeds(), *kept(target), b""]))


def minimized(target: Target, inputs: Iterable[bytes], bytes_max: int = BYTES_MAX) -> list[bytes]:
    """Return inputs that together run all that all run, beyond what the seeds do; short ones first.

    What does not fit into `bytes_max` is left out. Cost: each input is run once.
    """
    counted = Counted()
    for seed in target.seeds():
        reached(target, seed, counted)
    known = set(counted.edges)
    found, size = [], 0
    for data in sorted(set(inputs), key=lambda data: (len(data), data)):
        counted.edges.clear()
        reached(target, data, counted)
        if counted.edges - known and size + len(data) <= bytes_max:
            known |= counted.edges
            found.append(data)
            size += len(data)
    return found


def reached(target: Target, data: bytes, counted: Counted) -> set[Edge]:
    """Run an input, whatever comes of it; return the edges that `counted` has then."""
    try:
        with counted.limited(STEPS_BASE + target.steps_per_byte * len(data)):
            target.decode(data)
    except (Exception, TooManySteps):  # noqa: BLE001  # judged elsewhere
        pass
    return counted.edges
