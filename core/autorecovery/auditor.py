"""The auditor of a cluster: one of its candidates, who notes which ledgers lost replicas.

`run` stands for election; who is elected works through terms (`term.py`) until its vote is gone.
Source: BookKeeper AuditorElector, Auditor.
"""

from tailrace.core.autorecovery.all_ledgers_check import ReplicaCheck
from tailrace.core.autorecovery.config import AutoRecoveryConfig
from tailrace.core.autorecovery.election import Election
from tailrace.core.autorecovery.metrics import AuditorMetrics
from tailrace.core.autorecovery.term import AuditorTerm
from tailrace.core.autorecovery.underreplicated import UnderreplicatedLedgers
from tailrace.core.metadata.store import MetadataStore
from tailrace.core.runtime.clock import Clock


class Auditor:
    """One candidate. Its numbers are `metrics`."""

    def __init__(
        self,
        store: MetadataStore,
        marks: UnderreplicatedLedgers,
        check: ReplicaCheck | None,
        config: AutoRecoveryConfig,
        clock: Clock,
        *,
        name: str,
    ) -> None:
        """`check`: how to check all ledgers; None: they are not checked, only bookies are.

        `name`: how people, and BookKeeper's `whoisauditor`, will call this process; like a bookie's
        id.
        """
        self.metrics = AuditorMetrics()
        self._store = store
        self._marks = marks
        self._check = check
        self._config = config
        self._clock = clock
        self._election = Election(store, config.root, name, self.metrics)

    async def run(self) -> None:
        """Stand for election and audit while elected, until cancelled.

        The nodes are there (`UnderreplicatedLedgers.prepare`). Errors: only bugs of our own; the
        store's are waited out. Cancel: another candidate is elected at once.
        """
        await self._election.run(self._serve)

    async def _serve(self) -> None:
        await self._marks.begin_lost_bookie_recovery_delay_s(
            self._config.lost_bookie_recovery_delay_s
        )
        term = AuditorTerm(
            self._store, self._marks, self._check, self._config, self._clock, self.metrics
        )
        await term.run()
