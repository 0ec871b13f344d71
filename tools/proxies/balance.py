"""`tailrace proxy balance`: streams go from proxies that have much to those that have little."""

import math
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple

import typer

from tailrace.core.runtime.collector import loading_modules
from tailrace.tools.cluster.cluster_access import Namespace
from tailrace.tools.errors import CliError, Exit
from tailrace.tools.options import CommandConfig, Json, Timeout
from tailrace.tools.output import note

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tailrace.proxy.balancing.plan import Move, ProxyLoad
    from tailrace.proxy.balancing.proxies import ProxyView
    from tailrace.tools.proxies.access import Proxies

TIMEOUT_S: Final = 10.0


def _is_rate(rate: float) -> float:
    if not math.isfinite(rate):  # neither below a minimum nor a rate
        raise typer.BadParameter(f"{rate} is not a valid number of moves a second.")
    return rate


Rate = Annotated[
    float,
    typer.Option(
        "--rate",
        metavar="N",
        min=0.0,
        callback=_is_rate,
        help="Moves a second, at most; 0: no limit.",
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only show the moves.")]


class By(StrEnum):
    """What a stream counts."""

    COUNT = "count"
    LOAD = "load"


CountedBy = Annotated[By, typer.Option("--by", help="A stream counts one, or its bytes a second.")]
Tolerance = Annotated[
    int,
    typer.Option(
        "--tolerance",
        metavar="PERCENT",
        min=0,
        max=1000,
        help="A proxy above the average by no more than this keeps what it has.",
    ),
]
MovesMax = Annotated[
    int | None, typer.Option("--max-moves", metavar="N", min=0, help="Moves, at most.")
]
Drained = Annotated[
    str | None,
    typer.Option(
        "--drain",
        metavar="PROXY",
        help="Move all that this proxy owns; it takes no new stream from then on.",
    ),
]
RegionFrom = Annotated[
    str | None,
    typer.Option("--region-from", metavar="REGION", help="Only from proxies of this region,"),
]
RegionTo = Annotated[
    str | None, typer.Option("--region-to", metavar="REGION", help="to those of this one.")
]


class Wanted(NamedTuple):
    """What the options ask for."""

    by: By
    tolerance: int
    moves_max: int | None
    drain: str | None
    regions: tuple[str, str] | None


def balance(
    namespace: Namespace,
    by: CountedBy = By.COUNT,
    tolerance: Tolerance = 10,
    rate: Rate = 20.0,
    moves_max: MovesMax = None,
    drain: Drained = None,
    region_from: RegionFrom = None,
    region_to: RegionTo = None,
    dry_run: DryRun = False,
    as_json: Json = False,
    timeout_s: Timeout = TIMEOUT_S,
    command_config: CommandConfig = None,
) -> None:
    """Move streams between write proxies until all of a region have about as much.

    A stream goes from a proxy above the average to one below it. A move that fails is reported, and
    the others go on; then it ends with 1. Running it again does what is left.
    """
    regions = _regions(region_from, region_to, drain)
    wanted = Wanted(by, tolerance, moves_max, drain, regions)
    with loading_modules():
        from tailrace.tools.proxies.access import Proxies, on_proxies
        from tailrace.tools.proxies.moves import carry_out, show_moves, show_plan

    async def work(proxies: Proxies) -> None:
        members = await proxies.writers()
        moves = await _plan(proxies, wanted)
        if dry_run:
            show_plan(moves, as_json=as_json)
            return
        if drain is not None:
            await _close(proxies, drain)
            moves = await _plan(proxies, wanted)  # with what it has claimed since
        show_moves(await carry_out(proxies, members, moves, rate), as_json=as_json)

    on_proxies(namespace, timeout_s, work, command_config)


def loads_of(
    views: "Sequence[ProxyView]", stopped: frozenset[str], by: By = By.COUNT
) -> "list[ProxyLoad]":
    """Return what a plan is made of."""
    from tailrace.proxy.balancing.plan import ProxyLoad
    from tailrace.proxy.owner.codes import ServerStatus

    return [
        ProxyLoad(
            view.registered.name,
            {
                name: 1 if by is By.COUNT else round(load.size_bytes)
                for name, load in view.streams.items()
            },
            accepts=view.status is ServerStatus.WRITE_AND_ACCEPT
            and view.registered.region not in stopped,
            region=view.registered.region,
        )
        for view in views
    ]


def _regions(
    region_from: str | None, region_to: str | None, drain: str | None
) -> tuple[str, str] | None:
    if region_from is None and region_to is None:
        return None
    if region_from is None or region_to is None or drain is not None or region_from == region_to:
        raise CliError(
            "--region-from and --region-to go together, name two regions, and not with --drain",
            remedy="tailrace proxy balance --region-from eu --region-to us",
            code=Exit.USAGE,
        )
    return region_from, region_to


async def _plan(proxies: "Proxies", wanted: Wanted) -> "list[Move]":
    from tailrace.proxy.balancing.plan import Rules, balance_regions, drain
    from tailrace.proxy.balancing.plan import balance as balance_all
    from tailrace.proxy.routing.stopped_regions import read_stopped
    from tailrace.tools.proxies.access import answering

    members = await proxies.writers()
    stopped = await read_stopped(proxies.store, proxies.at.root)
    views = answering(await proxies.operator.views(members, ""))
    loads = loads_of(views, stopped, wanted.by)
    rules = Rules(wanted.tolerance, wanted.moves_max)
    if wanted.drain is not None:
        at = proxies.named(members, wanted.drain)
        check_drainable(loads, {at.name})
        return drain(loads, {at.name}, wanted.moves_max)
    if wanted.regions is not None:
        known = {each.region for each in loads}
        for name in wanted.regions:
            if name not in known:
                raise CliError(
                    f"no write proxy that answers is in region {name}",
                    remedy=f"one of: {', '.join(sorted(known))}",
                )
        return balance_regions(loads, *wanted.regions, rules)
    return balance_all(loads, rules)


def check_drainable(loads: "Sequence[ProxyLoad]", drained: "set[str]") -> None:
    """Refuse to drain what answers not, or where no other proxy takes streams. Errors: CliError."""
    missing = drained - {each.name for each in loads}
    if missing:
        raise CliError(f"{min(missing)} does not answer", code=Exit.UNREACHABLE)
    if not any(each.accepts and each.name not in drained for each in loads):
        raise CliError(
            "no other write proxy takes streams", remedy="tailrace proxy accept PROXY on"
        )


async def _close(proxies: "Proxies", name: str) -> None:
    at = proxies.named(await proxies.writers(), name)
    view = await proxies.operator.set_accepts(at, accepts=False)
    if view.trouble:
        raise CliError(f"{name} does not answer: {view.trouble}", code=Exit.UNREACHABLE)
    note(f"{name} takes no new stream; `tailrace proxy accept {name} on` has it take them again")
