"""Which bookies a ledger gets, and which take the place of failed ones.

The I/O beside `placement_policy`'s decisions: it brings the registered bookies, where they stand,
what they did wrong lately, and chance. One object per client, told of failures as they happen.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace as with_fields
from functools import partial
from random import Random
from typing import TypeAlias

from tailrace.core.errors import InvalidQuorums, NotEnoughBookies
from tailrace.core.ledger.arrangement import Candidate, Member
from tailrace.core.ledger.bookie_registry import BookieRegistry
from tailrace.core.ledger.disk_weights import capped_weights, weighted_order
from tailrace.core.ledger.network_topology import NetworkTopology
from tailrace.core.ledger.outcomes import BLAMELESS, UNREACHED
from tailrace.core.ledger.placement_config import PlacementConfig, PolicyName, QuarantineConfig
from tailrace.core.ledger.placement_policy import PlacementPolicy, Quorums, choose, replace
from tailrace.core.ledger.quarantine import AVOIDED, QUARANTINED, Quarantine, doubted_regions
from tailrace.core.ledger.region_aware import RegionAware
from tailrace.core.ledger.watched_node import WatchedNode
from tailrace.core.metadata.network_location import DEFAULT_LOCATION, NetworkLocation
from tailrace.core.metadata.region_rules import NO_RULES, parse_region_rules
from tailrace.core.metadata.store import MetadataStore
from tailrace.protocol.bookkeeper.entry import MAX_ENTRY_BYTES
from tailrace.protocol.bookkeeper.messages import (
    BookieInfo,
    BookieInfoRequest,
    BookieInfoResponse,
    Response,
    StatusCode,
)
from tailrace.protocol.ids import BookieId

logger = logging.getLogger(__name__)

Bookies: TypeAlias = Collection[BookieId]
AckRule: TypeAlias = Callable[[Bookies], bool]
"""Tells whether an entry that these bookies acknowledged is in enough fault domains."""


class Ensembles:
    """Chooses bookies among those that are registered as writable."""

    def __init__(
        self,
        bookies: BookieRegistry,
        rng: Random | None = None,
        *,
        placement: PlacementConfig | None = None,
        quarantine: QuarantineConfig | None = None,
        store: MetadataStore | None = None,
    ) -> None:
        """`rng`: makes the choices; seeded by the system unless given.

        `store`: where the rack mapping and the rules for regions lie; without it only the
        configuration and the bookies themselves say who is where.
        """
        self._bookies = bookies
        self._rng = rng or Random()
        self._placement = placement or PlacementConfig()
        health = quarantine or QuarantineConfig()
        self._spared_ratio = 1 - health.ratio
        self._quarantine = Quarantine(
            avoid_s=health.avoid_s,
            interval_s=health.interval_s,
            errors_max=health.errors_max if health.enabled else 0,
            quarantine_s=health.quarantine_s,
        )
        self._topology = NetworkTopology(
            self._placement.table(), bookies.location, store, self._placement.rack_mapping_path
        )
        self._rules = WatchedNode(
            store, self._placement.region_rules_path, parse_region_rules, NO_RULES
        )
        self._free_bytes: dict[BookieId, int] = {}
        self._next_disk_check_s = float("-inf")

    def promise(self, regions_min: int | None) -> int:
        """Return how many regions hold every entry of a ledger that asks for so many.

        None asks for what this client is configured to; 0: there is no promise.
        """
        if regions_min is not None:
            return regions_min
        is_regional = self._placement.policy is PolicyName.REGION_AWARE
        return self._placement.promise if is_regional else 0

    def check(self, quorums: Quorums, regions_min: int | None) -> None:
        """Refuse quorums for which no bookies could ever do. Errors: InvalidQuorums."""
        self._check(self._policy(regions_min), quorums)

    async def new_ensemble(
        self,
        quorums: Quorums,
        regions_min: int | None = None,
        *,
        exclude: Bookies = (),
        entry_bytes: int = MAX_ENTRY_BYTES,
    ) -> tuple[BookieId, ...]:
        """Return different bookies in their striping order, none of `exclude`.

        `regions_min`: as `promise` takes it; above 1 it makes the placement region-aware.
        `entry_bytes`: the largest entry that each must take.
        Errors: InvalidQuorums; NotEnoughBookies says how many there are and why others are left
        out. Cost: nothing once the lists of bookies and racks are known.
        """
        available = await self._available()
        policy = self._policy(regions_min)
        self._check(policy, quorums)
        too_small = self._too_small(available, entry_bytes)
        candidates = self._candidates(policy, available, {*exclude, *too_small})
        found = choose(policy, candidates, quorums)
        if found is None:
            why = self._why(policy, available, exclude) + _small(too_small, entry_bytes)
            raise NotEnoughBookies(f"{quorums.size} bookies are needed{why}")
        return found

    async def new_ensemble_up_to(
        self,
        quorums: Quorums,
        regions_min: int | None = None,
        *,
        exclude: Bookies = (),
        entry_bytes: int = MAX_ENTRY_BYTES,
    ) -> tuple[BookieId, ...]:
        """Return the largest ensemble of E down to Qw bookies (opportunisticStriping).

        Errors: as `new_ensemble`, when not even a write quorum can be placed.
        """
        for size in range(quorums.size, quorums.write, -1):
            smaller = quorums._replace(size=size)
            try:
                return await self.new_ensemble(
                    smaller, regions_min, exclude=exclude, entry_bytes=entry_bytes
                )
            except NotEnoughBookies as error:
                logger.info("ensemble_shrinks size=%d %s", size, error)
        smallest = quorums._replace(size=quorums.write)
        return await self.new_ensemble(
            smallest, regions_min, exclude=exclude, entry_bytes=entry_bytes
        )

    async def replace(
        self,
        ensemble: tuple[BookieId, ...],
        failed: Mapping[int, BookieId],
        quorums: Quorums,
        promised: int | None = None,
        *,
        entry_bytes: int = MAX_ENTRY_BYTES,
    ) -> tuple[BookieId, ...]:
        """Return the ensemble with as many of the failed places as possible given to others.

        Shape: `failed` maps places (indices of `ensemble`) to the bookies that failed there. No
        place is given to a member of the ensemble, failed or not.
        `promised`: the regions that the ledger was promised when it was made, which are kept unless
        reppEnableDurabilityEnforcementInReplace is off. None: nobody knows (BookKeeper does not
        say); then this client's own number is kept if there is a way.
        `entry_bytes`: the largest entry of the ledger, which whoever takes a place must take.
        Errors: NotEnoughBookies when not one place could be given.
        """
        available = await self._available()
        policy = self._policy(promised)
        if isinstance(policy, RegionAware):
            is_hard = promised is not None and self._placement.enforce_in_replace
            policy = with_fields(policy, is_hard=is_hard)
        gone = {*ensemble, *failed.values()}
        too_small = self._too_small(available, entry_bytes) - gone
        candidates = self._candidates(policy, available, gone | too_small)
        members = [Member(bookie, self.location(bookie)) for bookie in ensemble]
        found = replace(policy, candidates, quorums, members, sorted(failed))
        if found is None:
            wanted = f"{len(failed)} of {len(ensemble)} bookies are to be replaced"
            why = self._why(policy, available, gone) + _small(too_small, entry_bytes)
            raise NotEnoughBookies(wanted + why)
        return found

    async def refresh(self) -> None:
        """Learn which bookies there are and where they stand. Errors: Unavailable, NoNode."""
        await self._available()

    def report_failure(self, bookie: BookieId, status: StatusCode | None = None) -> None:
        """Take note that a bookie failed an add or a read; `status`: how, if that is known.

        It is chosen only after others for a while; if it does so often, it is quarantined.
        """
        if status in BLAMELESS:
            return
        now_s = asyncio.get_running_loop().time()
        is_error = status not in UNREACHED
        spare = self._rng.random() < self._spared_ratio
        if self._quarantine.on_failure(bookie, now_s, is_error=is_error, spare=spare):
            logger.warning("bookie_quarantined bookie=%s", bookie)

    def location(self, bookie: BookieId) -> NetworkLocation:
        """Return where a bookie stands as far as is known."""
        return self._topology.location(bookie)

    @property
    def own_location(self) -> NetworkLocation | None:
        """Where this process stands, if the configuration says so."""
        return self._placement.own()

    def ack_rule(self, write_quorum: int, regions_min: int | None = None) -> AckRule | None:
        """Return what acknowledgements need beside their number; None: nothing more.

        For who counts acknowledgements (enforceMinNumFaultDomainsForWrite). A ledger whose
        ensemble has too few fault domains is never confirmed, so enforce the placement as well.
        """
        if not self._placement.enforce_fault_domains:
            return None
        policy, locate = self._policy(regions_min), self._topology.location
        return lambda acked: policy.acks_suffice([locate(b) for b in acked], write_quorum)

    # -- inside ---

    def _too_small(self, bookies: Bookies, entry_bytes: int) -> set[BookieId]:
        """Return those that do not take entries of this size; none of what every bookie takes."""
        if entry_bytes <= MAX_ENTRY_BYTES:
            return set()
        return {b for b in bookies if self._bookies.entry_bytes_max(b) < entry_bytes}

    async def _available(self) -> list[BookieId]:
        available = await self._bookies.available()
        await self._topology.refresh()
        await self._rules.refresh()
        return available

    def _policy(self, regions_min: int | None) -> PlacementPolicy:
        return self._placement.make_policy(self._rules.value, regions_min)

    def _check(self, policy: PlacementPolicy, quorums: Quorums) -> None:
        problem = policy.problem(quorums)
        if problem is not None:
            raise InvalidQuorums(f"{type(policy).__name__} placement: {problem}")

    def _candidates(
        self,
        policy: PlacementPolicy,
        available: Bookies,
        exclude: Bookies,
    ) -> list[Candidate]:
        now_s = asyncio.get_running_loop().time()
        pool = sorted(b for b in available if b not in exclude and policy.admits(self.location(b)))
        if self._placement.weighted:
            self._ask_for_free_disk(available, now_s)
        weights = capped_weights(pool, self._free_bytes, self._placement.weight_multiple_max)
        order = weighted_order(pool, weights, [self._rng.random() for _ in pool])
        ranks = self._ranks(policy, available, now_s)
        return [Candidate(Member(b, self.location(b)), ranks[b]) for b in order]

    def _ranks(
        self, policy: PlacementPolicy, available: Bookies, now_s: float
    ) -> dict[BookieId, int]:
        ranks = {bookie: self._rank(bookie, now_s) for bookie in available}
        if not isinstance(policy, RegionAware):
            return ranks
        regions = {b: at.region for b in ranks if (at := self.location(b)) != DEFAULT_LOCATION}
        doubted = doubted_regions(regions, ranks)
        for bookie, region in regions.items():
            if region in doubted:
                ranks[bookie] = max(ranks[bookie], AVOIDED)
        return ranks

    def _why(
        self,
        policy: PlacementPolicy,
        available: Bookies,
        exclude: Bookies,
    ) -> str:
        """Return what is there and what is left out, for the operator."""
        now_s = asyncio.get_running_loop().time()
        excluded = sorted(b for b in available if b in exclude)
        free = sorted(b for b in available if b not in exclude)
        refused = [b for b in free if not policy.admits(self.location(b))]
        parts = [f"; writable: {len(available)}"]
        for what, bookies in (
            ("in use or excluded", excluded),
            (f"refused by {type(policy).__name__}", refused),
            ("quarantined", [b for b in free if self._rank(b, now_s) == QUARANTINED]),
            ("failed lately", [b for b in free if self._rank(b, now_s) == AVOIDED]),
        ):
            if bookies:
                parts.append(f"{what}: {', '.join(bookies)}")
        if isinstance(policy, RegionAware) and policy.regions_min > 1:
            parts.append(f"promised: {policy.regions_min} regions")
        racks = {self.location(b).rack for b in available}
        return "; ".join([*parts, f"racks: {', '.join(sorted(racks)) or 'none'}"])

    def _rank(self, bookie: BookieId, now_s: float) -> int:
        return self._quarantine.rank(bookie, now_s)

    def _ask_for_free_disk(self, available: Collection[BookieId], now_s: float) -> None:
        """Ask all bookies if it is time; the answers serve later choices."""
        if now_s < self._next_disk_check_s:
            return
        self._next_disk_check_s = now_s + self._placement.free_disk_interval_s
        self._free_bytes = {b: free for b, free in self._free_bytes.items() if b in available}
        request = BookieInfoRequest(BookieInfo.FREE_DISK_SPACE)
        for bookie in sorted(available):
            self._bookies.client(bookie).submit(request, partial(self._on_free_disk, bookie))

    def _on_free_disk(self, bookie: BookieId, response: Response) -> None:
        if isinstance(response, BookieInfoResponse) and response.free_disk_space is not None:
            self._free_bytes[bookie] = response.free_disk_space
        else:
            logger.info("free_disk_unknown bookie=%s status=%s", bookie, response.status.name)


def _small(bookies: Bookies, entry_bytes: int) -> str:
    """Return who is left out because of the size of entries, for the operator."""
    if not bookies:
        return ""
    names = ", ".join(sorted(bookies))
    return f"; entries of {entry_bytes} bytes are above nettyMaxFrameSizeBytes of: {names}"
