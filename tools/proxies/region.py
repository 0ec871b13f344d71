"""`tailrace region`: of bookies, which take new copies; of proxies, which take new streams."""

from typing import TYPE_CHECKING, Final

from tailrace.core.runtime.collector import loading_modules
from tailrace.tools.cluster.cluster_access import Namespace
from tailrace.tools.cluster.region import Region, app
from tailrace.tools.errors import CliError
from tailrace.tools.options import CommandConfig, Json, Timeout
from tailrace.tools.output import note
from tailrace.tools.proxies.balance import DryRun, Rate, check_drainable, loads_of

if TYPE_CHECKING:
    from tailrace.core.metadata.store import MetadataStore
    from tailrace.core.metadata.uri import NamespaceUri
    from tailrace.proxy.balancing.plan import Move
    from tailrace.tools.proxies.access import Proxies

__all__ = ["app"]

TIMEOUT_S: Final = 10.0


@app.command()
def stop(region: Region, namespace: Namespace) -> None:
    """Have the write proxies of a region take no new stream; what they own they serve.

    Clients then go to another region. It holds for proxies that start later, too.
    """
    _set(region, namespace, stopped=True)
    print(f"region {region} takes no new stream")


@app.command()
def start(region: Region, namespace: Namespace) -> None:
    """Have the write proxies of a region that was stopped take new streams again."""
    if not _set(region, namespace, stopped=False):
        raise CliError(f"region {region} is not stopped", place=namespace)
    print(f"region {region} takes new streams")


@app.command()
def drain(
    region: Region,
    namespace: Namespace,
    rate: Rate = 20.0,
    dry_run: DryRun = False,
    as_json: Json = False,
    timeout_s: Timeout = TIMEOUT_S,
    command_config: CommandConfig = None,
) -> None:
    """Stop a region, and move what its write proxies own to those of other regions.

    A move that fails is reported, and the others go on; then it ends with 1. Running it again does
    what is left. `tailrace region start` has the region take streams again.
    """
    with loading_modules():
        from tailrace.proxy.routing.stopped_regions import set_stopped
        from tailrace.tools.proxies.access import Proxies, on_proxies
        from tailrace.tools.proxies.moves import carry_out, show_moves, show_plan

    async def work(proxies: Proxies) -> None:
        members = await proxies.writers()
        moves = await _plan(proxies, region)
        if dry_run:
            show_plan(moves, as_json=as_json)
            return
        await set_stopped(proxies.store, proxies.at.root, region, stopped=True)
        note(f"region {region} takes no new stream")
        moved = await carry_out(proxies, members, moves, rate)
        # What was claimed before its proxies heard of the stop.
        left = [each for each in await _plan(proxies, region) if each not in moves]
        moved += await carry_out(proxies, members, left, rate)
        show_moves(moved, as_json=as_json)

    on_proxies(namespace, timeout_s, work, command_config)


async def _plan(proxies: "Proxies", region: str) -> "list[Move]":
    from tailrace.proxy.balancing.plan import drain as drain_all
    from tailrace.proxy.routing.stopped_regions import read_stopped
    from tailrace.tools.proxies.access import answering

    stopped = await read_stopped(proxies.store, proxies.at.root)
    views = answering(await proxies.operator.views(await proxies.writers(), ""))
    loads = loads_of(views, stopped | {region})
    drained = {each.name for each in loads if each.region == region}
    if not drained:
        known = sorted({each.region for each in loads})
        raise CliError(
            f"no write proxy that answers is in region {region}",
            remedy=f"one of: {', '.join(known)}",
        )
    check_drainable(loads, drained)
    return drain_all(loads, drained)


def _set(region: str, namespace: str, *, stopped: bool) -> bool:
    with loading_modules():
        from tailrace.proxy.routing.stopped_regions import set_stopped
        from tailrace.tools.cluster.cluster_access import on_namespace_store

    async def work(store: "MetadataStore", at: "NamespaceUri") -> bool:
        if await store.exists(at.root) is None:
            raise CliError("there is no such namespace", place=at.text)
        try:
            return await set_stopped(store, at.root, region, stopped=stopped)
        except ValueError as error:
            raise CliError(str(error), place=at.text) from error

    return on_namespace_store(namespace, work, changes=True)
