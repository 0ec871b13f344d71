"""`make bench`: every workload against Tailrace and Apache Kafka; JSON and a table.

Rounds are interleaved so that a slow minute of the machine hits everybody. A figure is the median
over the rounds with its range; a ratio is Tailrace's median over Kafka's. Nothing is asserted.
"""

import argparse
import json
import os
import platform
import shutil
import statistics
import tempfile
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.bench.brokers import KAFKA, KAFKA_FSYNC, TAILRACE, Kind
from tests.bench.workloads import FULL, QUICK, measure

_KINDS = {kind.name: kind for kind in (TAILRACE, KAFKA, KAFKA_FSYNC)}


def main() -> None:
    """Measure and print."""
    options = _options()
    console = Console(stderr=True)
    kinds = [_KINDS[name] for name in options.brokers.split(",")]
    loads = QUICK if options.quick else FULL
    rounds: dict[str, list[dict[str, float]]] = {kind.name: [] for kind in kinds}
    options.out.mkdir(parents=True, exist_ok=True)
    for number in range(options.rounds):
        for kind in kinds:
            folder = Path(tempfile.mkdtemp(prefix="round-", dir=options.out))
            try:
                figures = measure(
                    kind, folder, loads, options.seconds, options.warm_up,
                    lambda step, number=number: console.log(f"round {number + 1}: {step}"),
                )  # fmt: skip
            finally:
                shutil.rmtree(folder, ignore_errors=True)
            rounds[kind.name].append(figures)
            _save(options.out / "results.json", rounds)
    Console(width=150).print(_table(rounds, kinds))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5.0, help="length of one produce workload")
    parser.add_argument("--warm-up", type=float, default=30.0, help="seconds; a JVM needs them")
    parser.add_argument("--brokers", default="tailrace,kafka,kafka-fsync")
    parser.add_argument("--quick", action="store_true", help="1 KiB records, 6 partitions only")
    parser.add_argument("--out", type=Path, default=Path("bench-results"))
    return parser.parse_args()


def _save(path: Path, rounds: dict[str, list[dict[str, float]]]) -> None:
    machine = {
        "cpus": os.cpu_count(),
        "machine": platform.machine(),
        "python": platform.python_version(),
        "load": os.getloadavg(),
    }
    path.write_text(json.dumps({"machine": machine, "rounds": rounds}, indent=1))


def _cell(found: list[float]) -> str:
    return f"{statistics.median(found):.4g} ({min(found):.4g}-{max(found):.4g})"


def _table(rounds: dict[str, list[dict[str, float]]], kinds: list[Kind]) -> Table:
    table = Table(title=f"median (range) of {len(rounds[kinds[0].name])} rounds")
    table.add_column("figure")
    for kind in kinds:
        table.add_column(kind.name, justify="right")
    for kind in kinds[1:]:
        table.add_column(f"/ {kind.name}", justify="right")
    for figure in rounds[kinds[0].name][0]:
        values = {k.name: [found[figure] for found in rounds[k.name]] for k in kinds}
        medians = {name: statistics.median(found) for name, found in values.items()}
        cells = [_cell(values[k.name]) for k in kinds]
        ours = medians[kinds[0].name]
        ratios = [f"{ours / medians[k.name]:.2f}" if medians[k.name] else "-" for k in kinds[1:]]
        table.add_row(figure, *cells, *ratios)
    return table


if __name__ == "__main__":
    main()
