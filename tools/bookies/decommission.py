"""`tailrace bookie decommission`: give a bookie up for good. Source: BookKeeper's shell.

stopped -> audit -> wait until no ledger has entries there -> its cookie goes

The cookie goes last: until then the id can come back only with its data. What was done stays done
if the command ends early, and the next one goes on from there.
"""

import asyncio
from typing import Annotated, Final

import typer

from tailrace.core.autorecovery.fragments import fragments_of
from tailrace.core.metadata.cluster import find_cluster
from tailrace.core.metadata.ledger_metadata import LedgerMetadata, decode_ledger
from tailrace.core.metadata.ledger_tree import ledger_ranges
from tailrace.core.metadata.node_reads import read_current, read_nodes
from tailrace.core.runtime.clock import SystemClock
from tailrace.protocol.ids import BookieId, LedgerId
from tailrace.tools.bookies.autorecovery_tools import ask_for_audit, problem_of
from tailrace.tools.bookies.bookie_tools import Id
from tailrace.tools.cluster.cluster_access import Cluster, ClusterMetadata, on_cluster
from tailrace.tools.errors import CliError
from tailrace.tools.output import Step, note, progress

LOOK_EVERY_S: Final = 1.0
WAIT_S: Final = 86_400.0

Wait = Annotated[
    float,
    typer.Option(
        "--timeout", metavar="SECONDS", min=0.0, max=1e9, help="How long to wait for the copies."
    ),
]


def decommission(bookie: Id, metadata: ClusterMetadata, timeout: Wait = WAIT_S) -> None:
    """Give up a stopped bookie: its replicas are made anew elsewhere, then its cookie is deleted.

    Refused while it runs. Needs `tailrace autorecovery` (or BookKeeper's) in the cluster; if the
    command ends early, the copying goes on, and the next one finds what is left.
    """

    async def work(cluster: Cluster) -> None:
        await Decommission(cluster, BookieId(bookie), metadata).run(timeout)

    on_cluster(metadata, work, changes=True)
    note(f"bookie {bookie} is given up: it may come back only with empty directories")


def has_entries(ledger: LedgerMetadata, bookie: BookieId) -> bool:
    """Tell whether a bookie keeps entries of a ledger, or may get some, by its metadata.

    A fragment may name one that has none: an empty one, or a short one in a wide ensemble. Nobody
    copies those in a cluster with Java's workers.
    """
    return any(
        bookie in span.ensemble
        and (span.is_open or len(span.stored_at(span.ensemble.index(bookie))) > 0)
        for span in fragments_of(ledger)
    )


class Decommission:
    """Gives up one bookie of a cluster."""

    def __init__(self, cluster: Cluster, bookie: BookieId, uri: str) -> None:
        """`uri`: where the cluster is, for people."""
        self._cluster = cluster
        self._bookie = bookie
        self._uri = uri
        self._clock = SystemClock()

    async def run(self, timeout_s: float) -> None:
        """Do it all. Errors: CliError when it is refused, or takes too long. Cancel: begin anew."""
        await self._refuse_if_registered()
        cookie = await self._cluster.store.exists(self._cookie)
        left = await self._find_ledgers()
        if cookie is None and not left:
            raise CliError(
                f"there is no bookie {self._bookie}: no cookie, no ledgers", place=self._uri,
                remedy=f"tailrace bookie list --metadata {self._uri}",
            )  # fmt: skip
        deadline_s = self._clock.monotonic_s() + timeout_s
        with progress("wait for copies", "ledgers left") as step:
            while left:
                note(f"{await ask_for_audit(self._cluster, self._uri)} audits")
                await self._wait_for(left, deadline_s, step)
                left = await self._find_ledgers()  # a writer may have taken it until just now
        await self._refuse_if_registered()
        if cookie is not None:
            await self._cluster.store.delete(self._cookie, cookie.version)

    @property
    def _cookie(self) -> str:
        return self._cluster.paths.cookie(self._bookie)

    async def _refuse_if_registered(self) -> None:
        store, root = self._cluster.store, self._cluster.root
        found = await read_current(store, lambda: find_cluster(store, root))
        if found is not None and self._bookie in found.registered:
            raise CliError(
                f"bookie {self._bookie} is registered", place=self._uri,
                remedy="stop it first; of one that was killed, ZooKeeper finds out within its "
                "zkTimeout",
            )  # fmt: skip

    async def _find_ledgers(self) -> list[LedgerId]:
        """Return all ledgers that have entries there."""

        async def find() -> list[LedgerId]:
            found: list[LedgerId] = []
            async for ids in ledger_ranges(self._cluster.store, self._cluster.root):
                found += await self._with_entries(ids)
                step(len(found))
            return found

        with progress("look for ledgers", "found") as step:
            return await read_current(self._cluster.store, find)

    async def _wait_for(self, left: list[LedgerId], deadline_s: float, step: Step) -> None:
        """Return once none of these has entries there. Errors: CliError if that takes too long."""
        total, told = len(left), None
        while left := await self._with_entries(left):
            step(len(left), total)
            problem = await problem_of(self._cluster, self._uri)
            if problem is not None and problem.cause != told:
                note(f"{problem.cause}: nothing is copied; {problem.remedy}")
            told = problem.cause if problem is not None else None
            if self._clock.monotonic_s() >= deadline_s:
                raise CliError(
                    f"{len(left)} of {total} ledgers still have entries at {self._bookie}",
                    place=self._uri,
                    remedy=f"tailrace autorecovery list --missing-replica {self._bookie} "
                    f"--metadata {self._uri}; then again",
                )
            await asyncio.sleep(LOOK_EVERY_S)

    async def _with_entries(self, ids: list[LedgerId]) -> list[LedgerId]:
        paths = self._cluster.paths
        nodes = await read_nodes(self._cluster.store, [paths.ledger(each) for each in ids])
        return [
            ledger_id
            for ledger_id, node in zip(ids, nodes, strict=True)
            if node is not None and has_entries(decode_ledger(node.data), self._bookie)
        ]
