"""`tailrace region`: the regions of a cluster, and which of them take new copies.

What is changed here lies in one node that every broker watches; ledgers that are being written stay
where they are until they end, so a closed region is empty of them after a roll of each log.
"""

from collections.abc import Callable
from typing import Annotated, Any, Final

import typer

from tailrace.core.errors import BadVersion, NodeExists, NoNode
from tailrace.core.ledger.network_topology import NetworkTopology
from tailrace.core.ledger.read_order import Standing
from tailrace.core.metadata.cluster import find_cluster
from tailrace.core.metadata.region_rules import (
    NO_RULES,
    REGION_RULES_PATH,
    RegionRules,
    encode_region_rules,
    parse_region_rules,
)
from tailrace.core.metadata.store import MetadataStore
from tailrace.protocol.ids import BookieId
from tailrace.tools.cluster.cluster_access import Cluster, ClusterMetadata, Metadata, on_cluster
from tailrace.tools.errors import CliError, Exit
from tailrace.tools.options import Json
from tailrace.tools.output import Column, show_rows

app = typer.Typer(no_args_is_help=True, add_completion=False)

Region = Annotated[str, typer.Argument(metavar="REGION")]
Rules = Annotated[
    str,
    typer.Option("--rules", metavar="PATH", help="As the brokers' reppRegionRulesPath."),
]
Mapping = Annotated[
    str,
    typer.Option("--mapping", metavar="PATH", help="As the brokers' bookieRackMappingPath."),
]

_COLUMNS = [
    Column("region"),
    Column("writable", right=True),
    Column("read_only", right=True, title="read-only"),
    Column("racks", right=True),
    Column("new_copies", title="new copies"),
]
_RACES_MAX: Final = 8
"""How often somebody else may change the rules in between."""


@app.callback()
def region() -> None:
    """Look at the regions of a cluster, and open or close them to new copies."""


@app.command("list")
def list_regions(
    metadata: Metadata,
    rules: Rules = REGION_RULES_PATH,
    mapping: Mapping = "/bookies",
    as_json: Json = False,
) -> None:
    """List the regions by the bookies that are registered, and whether they take new copies.

    Brokers with a reppRegionsToWrite or bookieNetworkLocations of their own may see it differently.
    """

    async def work(cluster: Cluster) -> list[dict[str, Any]]:
        info = await find_cluster(cluster.store, cluster.root)
        await cluster.bookies.available()
        topology = NetworkTopology({}, cluster.bookies.location, cluster.store, mapping)
        await topology.refresh()
        names = [*info.writable, *info.read_only] if info is not None else []
        now, _ = await _read(cluster.store, rules)
        return _rows([BookieId(name) for name in names], cluster, topology, now)

    show_rows(on_cluster(metadata, work), _COLUMNS, as_json=as_json)


@app.command("close")
def close_region(
    region: Region, metadata: ClusterMetadata, rules: Rules = REGION_RULES_PATH
) -> None:
    """Let a region take no new copies: before it is removed, for one."""
    _change(
        metadata,
        rules,
        lambda now: RegionRules(to_write=now.to_write, disallowed=now.disallowed | {region}),
    )
    print(f"region {region} takes no new copies")


@app.command("open")
def open_region(
    region: Region, metadata: ClusterMetadata, rules: Rules = REGION_RULES_PATH
) -> None:
    """Let a region that was closed take new copies again."""

    def opened(now: RegionRules) -> RegionRules:
        if region not in now.disallowed:
            closed = ", ".join(sorted(now.disallowed)) or "none"
            raise CliError(
                f"region {region} is not closed", place=rules, remedy=f"closed: {closed}"
            )
        return RegionRules(to_write=now.to_write, disallowed=now.disallowed - {region})

    _change(metadata, rules, opened)
    print(f"region {region} takes new copies")


@app.command("write")
def write_regions(
    metadata: ClusterMetadata,
    regions: Annotated[
        list[str] | None,
        typer.Argument(metavar="[REGION]...", help="The only regions that may be written."),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="All regions may be written.")] = False,
    configured: Annotated[
        bool, typer.Option("--configured", help="As each broker's reppRegionsToWrite says.")
    ] = False,
    rules: Rules = REGION_RULES_PATH,
) -> None:
    """Say which regions may be written, in place of the brokers' reppRegionsToWrite."""
    if bool(regions) + every + configured != 1:
        raise CliError(
            "name regions, or --all, or --configured", remedy="tailrace region write eu us asia",
            code=Exit.USAGE,
        )  # fmt: skip
    to_write = None if configured else tuple(dict.fromkeys(regions or ()))
    _change(metadata, rules, lambda now: RegionRules(to_write=to_write, disallowed=now.disallowed))
    print(f"regions to write: {', '.join(regions or ()) or ('all' if every else 'as configured')}")


def _rows(
    bookies: list[BookieId], cluster: Cluster, topology: NetworkTopology, now: RegionRules
) -> list[dict[str, Any]]:
    by_region: dict[str, list[BookieId]] = {}
    for bookie in bookies:
        by_region.setdefault(topology.location(bookie).region, []).append(bookie)
    for name in (*now.disallowed, *(now.to_write or ())):
        by_region.setdefault(name, [])
    return [
        {
            "region": name,
            "writable": sum(cluster.bookies.standing(b) is Standing.AVAILABLE for b in members),
            "read_only": sum(cluster.bookies.standing(b) is Standing.READ_ONLY for b in members),
            "racks": len({topology.location(b).rack for b in members}),
            "new_copies": _state(name, now),
            "bookies": sorted(members),
        }
        for name, members in sorted(by_region.items())
    ]


def _state(name: str, now: RegionRules) -> str:
    if name in now.disallowed:
        return "closed"
    return "not to be written" if now.to_write and name not in now.to_write else "yes"


def _change(metadata: str, path: str, change: Callable[[RegionRules], RegionRules]) -> None:
    async def work(cluster: Cluster) -> None:
        for _ in range(_RACES_MAX):
            now, version = await _read(cluster.store, path)
            data = encode_region_rules(change(now))
            try:
                if version is None:
                    await cluster.store.create(path, data, parents=True)
                else:
                    await cluster.store.set(path, data, version)
            except (NodeExists, NoNode, BadVersion):
                continue  # somebody else changed them: look again
            return
        raise CliError(f"{path} changes faster than it can be read", place=metadata)

    on_cluster(metadata, work, changes=True)


async def _read(store: MetadataStore, path: str) -> tuple[RegionRules, int | None]:
    """Return the rules and their version; None: there is no node. Errors: CorruptData."""
    try:
        node = await store.get(path)
    except NoNode:
        return NO_RULES, None
    return parse_region_rules(node.data), node.version
