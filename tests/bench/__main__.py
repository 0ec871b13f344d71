"""`make bench`: what Tailrace has beside what Apache has; JSON and tables.

Brokers beside Kafka: records, and all else that clients ask for. Bookies beside BookKeeper's, log
streams beside DistributedLog's, a broker on three bookies beside three nodes of Kafka; how soon a
log whose owner died is written again, and a partition whose broker died; how soon a test has a
broker; how long one client has the others of a broker wait.

Rounds are interleaved so that a slow minute of the machine hits everybody. A figure is the median
over the rounds with its range; a ratio is Tailrace's median over the other's. Nothing is asserted.
"""

import argparse
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

from tests.bench import (
    broker_failover,
    cleaners,
    client_apis,
    clusters,
    failover,
    fixture,
    ledgers,
    logs,
    longest_turns,
    proxies,
    readers,
    restores,
    security,
    workloads,
)
from tests.bench.brokers import KAFKA, KAFKA_FSYNC, TAILRACE
from tests.bench.report import save, table
from tests.zookeeper import ZooKeeperServer

_KINDS = {kind.name: kind for kind in (TAILRACE, KAFKA, KAFKA_FSYNC)}
Steps = Callable[[str], None]
Suite = Callable[[argparse.Namespace, Steps], Iterator[tuple[str, dict[str, float]]]]


def main() -> None:
    """Measure and print."""
    options = _options()
    options.out.mkdir(parents=True, exist_ok=True)
    console = Console(stderr=True)
    for suite in options.suite.split(","):
        measure = _SUITES[suite]
        rounds: dict[str, list[dict[str, float]]] = {}
        for number in range(options.rounds):

            def step(text: str, number: int = number) -> None:
                console.log(f"round {number + 1}: {text}")

            for name, figures in measure(options, step):
                rounds.setdefault(name, []).append(figures)
                save(options.out / f"{suite}.json", rounds)
        Console(width=150).print(table(rounds))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--suite", default=",".join(_SUITES), help="any of these, joined by commas")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5.0, help="length of one workload")
    parser.add_argument("--warm-up", type=float, default=30.0, help="seconds; a JVM needs them")
    parser.add_argument("--brokers", default="tailrace,kafka,kafka-fsync")
    parser.add_argument(
        "--quick", action="store_true", help="1 KiB records, 6 partitions, 20 segments only"
    )
    parser.add_argument("--parts", default=",".join(ledgers.PARTS), help="of bookies: only these")
    parser.add_argument("--out", type=Path, default=Path("bench-results"))
    options = parser.parse_args()
    if unknown := set(options.parts.split(",")).difference(ledgers.PARTS):
        parser.error(f"no such parts: {sorted(unknown)}; there are {', '.join(ledgers.PARTS)}")
    return options


def _brokers(options: argparse.Namespace, step: Steps) -> Iterator[tuple[str, dict[str, float]]]:
    """Measure one round of every broker."""
    loads = workloads.QUICK if options.quick else workloads.FULL
    for name in options.brokers.split(","):
        with _folder(options.out) as folder:
            yield (
                name,
                workloads.measure(
                    _KINDS[name], folder, loads, options.seconds, options.warm_up, step
                ),
            )


def _apis(options: argparse.Namespace, step: Steps) -> Iterator[tuple[str, dict[str, float]]]:
    """Measure one round of what clients do beside records."""
    for name in options.brokers.split(","):
        with _folder(options.out) as folder:
            yield (
                name,
                client_apis.measure(_KINDS[name], folder, options.seconds, options.warm_up, step),
            )


def _bookies(options: argparse.Namespace, step: Steps) -> Iterator[tuple[str, dict[str, float]]]:
    """Measure one round of both kinds of bookies."""
    with _folder(options.out) as folder, _zookeeper(folder) as hosts:
        # Every load warms up by itself; three loads make a JVM's half a minute.
        yield from ledgers.measure(
            hosts,
            folder,
            parts=options.parts.split(","),
            seconds=options.seconds,
            warm_s=options.warm_up / 3,
            steps=step,
        ).items()


def _logs(options: argparse.Namespace, step: Steps) -> Iterator[tuple[str, dict[str, float]]]:
    """Measure one round of both libraries for log streams."""
    with _folder(options.out) as folder, _zookeeper(folder) as hosts:
        yield from logs.measure(
            hosts,
            folder,
            seconds=options.seconds,
            warm_s=options.warm_up / 3,
            is_quick=options.quick,
            steps=step,
        ).items()


def _proxies(options: argparse.Namespace, step: Steps) -> Iterator[tuple[str, dict[str, float]]]:
    """Measure one round of thin clients and of an embedded log."""
    with _folder(options.out) as folder, _zookeeper(folder) as hosts:
        yield from proxies.measure(
            hosts, folder, seconds=options.seconds, warm_s=options.warm_up / 6, steps=step
        ).items()


def _readers(options: argparse.Namespace, step: Steps) -> Iterator[tuple[str, dict[str, float]]]:
    """Measure one round of many readers of one stream."""
    with _folder(options.out) as folder, _zookeeper(folder) as hosts:
        yield from readers.measure(hosts, folder, steps=step).items()


def _cluster(options: argparse.Namespace, step: Steps) -> Iterator[tuple[str, dict[str, float]]]:
    """Measure one round of a broker on three bookies and of three nodes of Kafka."""
    for kind in clusters.KINDS:
        with _folder(options.out) as folder:
            yield (
                kind.name,
                clusters.measure(kind, folder, options.seconds, options.warm_up, step),
            )


def _failover(options: argparse.Namespace, step: Steps) -> Iterator[tuple[str, dict[str, float]]]:
    """Measure one round of owners that die."""
    with _folder(options.out) as folder, _zookeeper(folder) as hosts:
        yield from failover.measure(hosts, folder, step).items()


def _broker_failover(
    options: argparse.Namespace, step: Steps
) -> Iterator[tuple[str, dict[str, float]]]:
    """Measure one round of brokers that die."""
    with _folder(options.out) as folder:
        yield from broker_failover.measure(folder, step).items()


def _fixture(options: argparse.Namespace, step: Steps) -> Iterator[tuple[str, dict[str, float]]]:
    """Measure one round of brokers for tests."""
    with _folder(options.out) as folder:
        yield from fixture.measure(folder, step)


def _restore(options: argparse.Namespace, step: Steps) -> Iterator[tuple[str, dict[str, float]]]:
    """Measure one round of readers that restore a changelog, from each kind of broker."""
    found: dict[str, dict[str, float]] = {reader: {} for reader in restores.READERS}
    for name in options.brokers.split(","):
        if _KINDS[name].fsync_per_message_set:
            continue  # reads are the same
        with _folder(options.out) as folder:
            measured = restores.measure(
                _KINDS[name], folder, seconds=options.seconds, is_quick=options.quick, steps=step
            )
        for reader, figures in measured.items():
            found[reader] |= figures
    yield from found.items()


def _cleaner(options: argparse.Namespace, step: Steps) -> Iterator[tuple[str, dict[str, float]]]:
    """Measure one round of the cleaner of each kind of broker, whose syncs are no matter to it."""
    kinds = [_KINDS[name] for name in options.brokers.split(",")]
    kinds = [kind for kind in kinds if not kind.fsync_per_message_set]
    with _folder(options.out) as folder:
        # Each load warms up what it measures; it is the compiler that a JVM has to meet first.
        warm_s = options.warm_up / 2
        measured = cleaners.measure(
            kinds, folder, seconds=options.seconds, warm_s=warm_s, steps=step
        )
    yield from measured.items()


@contextmanager
def _zookeeper(folder: Path) -> Iterator[str]:
    server = ZooKeeperServer(folder / "zookeeper").start()
    try:
        yield server.hosts
    finally:
        server.stop()


@contextmanager
def _folder(out: Path) -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="round-", dir=out))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _turns(_options: argparse.Namespace, step: Steps) -> Iterator[tuple[str, dict[str, float]]]:
    """Measure how long one client has the others of a broker wait."""
    yield from longest_turns.measure(step)


def _security(options: argparse.Namespace, step: Steps) -> Iterator[tuple[str, dict[str, float]]]:
    """Measure one round of what encryption, log-ins and access control lists cost."""
    for name in options.brokers.split(","):
        if not _KINDS[name].fsync_per_message_set:
            with _folder(options.out) as folder:
                yield (
                    name,
                    security.measure(_KINDS[name], folder, options.seconds, options.warm_up, step),
                )


_SUITES: dict[str, Suite] = {
    "brokers": _brokers,
    "apis": _apis,
    "bookies": _bookies,
    "logs": _logs,
    "proxies": _proxies,
    "readers": _readers,
    "cluster": _cluster,
    "failover": _failover,
    "broker-failover": _broker_failover,
    "restore": _restore,
    "cleaner": _cleaner,
    "fixture": _fixture,
    "turns": _turns,
    "security": _security,
}


if __name__ == "__main__":
    main()
