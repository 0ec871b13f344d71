"""How many bookies keep a topic's records: from Kafka's words to BookKeeper's. Pure.

    replication.factor      Qw: copies of each batch; given when the topic is created
    tailrace.ensemble.size  E: bookies that a log segment is spread over; Qw unless it is said
    (a majority of Qw)      Qa: copies on disk before a batch is acknowledged
    tailrace.min.regions.for.durability
                            m: regions that hold every acknowledged batch; Qa is then at least what
                            no m - 1 regions can make up of Qw copies that are spread evenly

Any Qw - Qa bookies may be lost without stopping writes to a segment, any Qa - 1 without losing what
was acknowledged, nor any m - 1 regions. A new segment needs E bookies, as in BookKeeper. What a
topic says of these itself is fixed when it is created; where it says nothing the broker's default
holds, also after that was changed.
"""

from collections.abc import Mapping
from typing import NamedTuple

from tailrace.broker.cluster.config_def import InvalidConfig, refuse
from tailrace.broker.cluster.settings import TopicSettings
from tailrace.core.ledger.durability import durability_problem

ENSEMBLE_SIZE = "tailrace.ensemble.size"
REGIONS_MIN = "tailrace.min.regions.for.durability"
_MIN_ISR = "min.insync.replicas"
_NAMES_IN_LOGS = ("bkcEnsembleSize", "bkcWriteQuorumSize", "bkcAckQuorumSize")
_REGIONS_IN_LOGS = "log.min.regions.for.durability"


class Quorums(NamedTuple):
    """Shape: E >= Qw >= Qa >= 1."""

    ensemble_size: int
    write_quorum: int
    ack_quorum: int
    regions_min: int = -1
    """Regions that hold what is acknowledged; -1: as many as this broker promises everywhere."""

    @property
    def text(self) -> str:
        """E/Qw/Qa, as operators write it."""
        return "/".join(map(str, self[:3]))

    def as_settings(self) -> dict[str, str]:
        """Return them as settings of a log."""
        settings = dict(zip(_NAMES_IN_LOGS, map(str, self[:3]), strict=True))
        if self.regions_min >= 0:
            settings[_REGIONS_IN_LOGS] = str(self.regions_min)
        return settings


def quorums_of(replication_factor: int, settings: TopicSettings) -> Quorums:
    """Return what a topic's numbers mean; an ensemble below the write quorum is widened to it."""
    ensemble = max(settings.tailrace_ensemble_size, replication_factor)
    regions_min = settings.tailrace_min_regions_for_durability
    ack_quorum = replication_factor // 2 + 1
    if regions_min > 1:
        spanning = replication_factor - replication_factor // regions_min + 1
        ack_quorum = min(max(ack_quorum, spanning), replication_factor)
    return Quorums(ensemble, replication_factor, ack_quorum, regions_min)


def check_quorums(
    replication_factor: int, overrides: Mapping[str, str], settings: TopicSettings
) -> None:
    """Refuse overrides that contradict the replication factor. Errors: InvalidConfig.

    Only what the topic itself says: a broker's default of min.insync.replicas that is too large is
    answered to each produce (NOT_ENOUGH_REPLICAS), as it may change with the next start.
    """
    ensemble, quorums = settings.tailrace_ensemble_size, quorums_of(replication_factor, settings)
    if 0 < ensemble < replication_factor:
        why = f"an ensemble holds at least the {replication_factor} copies of a batch"
        raise refuse(ENSEMBLE_SIZE, ensemble, why)
    problem = durability_problem(replication_factor, quorums.ack_quorum, quorums.regions_min)
    if problem is not None:
        why = f"a replication factor of {replication_factor} is too low: {problem}"
        raise refuse(REGIONS_MIN, quorums.regions_min, why)
    if _MIN_ISR in overrides and settings.min_insync_replicas > quorums.ack_quorum:
        why = (
            f"with a replication factor of {replication_factor}, a batch is acknowledged when "
            f"{quorums.ack_quorum} copies are on disk, so it can be at most that"
        )
        raise refuse(_MIN_ISR, settings.min_insync_replicas, why)


def check_same_quorums(before: TopicSettings, after: TopicSettings) -> None:
    """Refuse to change what a topic's logs were made with. Errors: InvalidConfig."""
    for name in (ENSEMBLE_SIZE, REGIONS_MIN):
        attribute = name.replace(".", "_")
        if getattr(after, attribute) != getattr(before, attribute):
            raise InvalidConfig(f"{name} is said when a topic is created and stays as it is")
