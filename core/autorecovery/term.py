"""One term of an elected auditor: looks out for lost bookies, audits, checks.

Everything that it knows it has seen in this term; the next one, here or elsewhere, begins anew.

    lists, delay, switch --> AuditRules --> wait | audit --> marks
                                 +--in grace--> check of all ledgers --> marks
"""

import asyncio
import logging
from collections.abc import Collection
from functools import partial
from typing import Final

from tailrace.core.autorecovery.all_ledgers_check import AllLedgersCheck, ReplicaCheck
from tailrace.core.autorecovery.audit import Audit
from tailrace.core.autorecovery.audit_rules import AuditRules, Registrations
from tailrace.core.autorecovery.config import AutoRecoveryConfig
from tailrace.core.autorecovery.metrics import AuditorMetrics
from tailrace.core.autorecovery.registrations import RegistrationWatch
from tailrace.core.autorecovery.shared_state import ALL_LEDGERS
from tailrace.core.autorecovery.underreplicated import UnderreplicatedLedgers
from tailrace.core.errors import CoreError, CorruptData
from tailrace.core.metadata.store import MetadataStore, WatchEvent
from tailrace.core.runtime.clock import Clock
from tailrace.core.runtime.forever import Forever
from tailrace.core.runtime.tasks import together
from tailrace.protocol.ids import BookieId

logger = logging.getLogger(__name__)

RETRY_S_MAX: Final = 30.0
"""After an audit that failed, at most; the first pause is a tenth of a second."""
BUGS_MAX: Final = 10
"""So many failures in a row that are not the store's end the term, and the process: another one is
elected, which an auditor that does not audit would prevent."""

CHECK_RETRY_S: Final = 60.0
"""Pause after a check of all ledgers that was cut short: it is dear, and begins anew."""


class AuditorTerm:
    """The work of one auditor while it is elected. Run it once."""

    def __init__(
        self,
        store: MetadataStore,
        marks: UnderreplicatedLedgers,
        check: ReplicaCheck | None,
        config: AutoRecoveryConfig,
        clock: Clock,
        metrics: AuditorMetrics,
    ) -> None:
        self._marks = marks
        self._config = config
        self._clock = clock
        self._metrics = metrics
        self._news = asyncio.Event()
        """Something changed that an audit depends on."""
        self._check_news = asyncio.Event()
        """The same, for the check of all ledgers."""
        self._check_turn = asyncio.Lock()
        self._registrations = RegistrationWatch(store, config.root, self._hear)
        self._rules = AuditRules(config.periodic_bookie_check_s, clock.monotonic_s())
        self._audit = Audit(store, config.root, marks, metrics)
        self._check = (
            AllLedgersCheck(store, config.root, check, self._audit, metrics) if check else None
        )

    async def run(self) -> None:
        """Work until cancelled; the store's errors are waited out.

        Errors: a bug that fails again and again.
        """
        audits = Forever("auditor.audit", pause_s_max=RETRY_S_MAX, ends_after=BUGS_MAX)
        work = [audits.run(partial(self._try_audit, audits))]
        if self._check is not None and self._config.periodic_check_s:
            checks = Forever("auditor.check", ends_after=BUGS_MAX)
            work.append(checks.run(partial(self._check_or_wait, self._check)))
        await together(work)

    # -- audits ---

    async def _try_audit(self, audits: Forever) -> None:
        try:
            await self._audit_or_wait(audits)
        except Exception:
            self._metrics.failures_total += 1
            raise

    async def _audit_or_wait(self, audits: Forever) -> None:
        self._news.clear()  # before reading: what changes meanwhile is news
        if not await self._marks.is_enabled(self._on_change):
            await self._marks.wait_until_enabled()
            return
        await self._read_delay()
        seen = await self._look_around()
        now_s = self._clock.monotonic_s()
        due_s = self._rules.due_s(now_s)
        if due_s is not None and due_s <= now_s:
            await self._audit_now(seen)
            return
        audits.is_well()
        try:
            async with asyncio.timeout(due_s - now_s if due_s is not None else None):
                await self._news.wait()
        except TimeoutError:
            return

    async def _audit_now(self, seen: Registrations) -> None:
        began_s = self._clock.monotonic_s()
        self._rules.begin_audit(began_s)
        logger.info("audit_begins lost=%s", ",".join(sorted(self._rules.lost)) or "nobody")
        try:
            count = await self._audit.run(seen, lambda: self._may_go_on(seen))
        except BaseException:
            self._rules.on_audit_failed()
            raise
        if count is None:
            self._rules.on_audit_failed()
            logger.info("audit_stopped")
            return
        now_s = self._clock.monotonic_s()
        self._rules.on_audited(now_s)
        self._metrics.audits_total += 1
        self._metrics.num_under_replicated_ledgers.observe(count)
        self._metrics.audit_bookies_seconds.observe(now_s - began_s)
        logger.info("audit_ended marked=%d", count)

    async def _may_go_on(self, begun: Registrations) -> Registrations | None:
        """Look again, at the cost of nothing while nothing changed."""
        if not self._news.is_set():
            return await self._registrations.look()
        self._news.clear()
        if not await self._marks.is_enabled(self._on_change):
            return None
        seen = await self._look_around()
        has_all_vanished = begun.available and not seen.available
        return None if has_all_vanished else seen

    async def _read_delay(self) -> None:
        try:
            delay = await self._marks.recovery_delay(self._on_change)
        except CorruptData as error:
            logger.warning("recovery_delay_unreadable %s", error)  # what was said before holds
            return
        if delay is None:
            self._rules.on_delay(self._config.lost_bookie_recovery_delay_s, -1)
        else:
            self._rules.on_delay(*delay)

    async def _look_around(self) -> Registrations:
        seen = await self._registrations.look()
        before = self._rules.in_grace
        self._rules.on_registrations(seen, self._clock.monotonic_s())
        after = self._rules.in_grace
        self._metrics.num_bookie_audits_delayed_total += after not in (None, before)
        self._metrics.num_delayed_bookie_audits_cancelled_total += before not in (None, after)
        self._metrics.lost_bookies = len(self._rules.lost)
        return seen

    # -- the check of all ledgers ---

    async def _check_or_wait(self, check: AllLedgersCheck) -> None:
        try:
            await asyncio.sleep(await self._until_check_s())
            await self._marks.wait_until_enabled()
            is_done = await self._check_now(check)
        except CoreError as error:
            self._metrics.failures_total += 1
            logger.warning("check_of_all_ledgers_failed error=%s", error)
            is_done = False
        if not is_done:
            await asyncio.sleep(CHECK_RETRY_S)

    async def _until_check_s(self) -> float:
        """Return how long to wait, from what the auditors before noted."""
        period_s = self._config.periodic_check_s
        try:
            last_ms = await self._marks.last_run_ms(ALL_LEDGERS)
        except CorruptData as error:
            logger.warning("time_of_check_unreadable %s", error)  # the check's end mends it
            last_ms = None
        if last_ms is None:
            return 0
        past_s = max(0.0, (self._clock.now_ms() - last_ms) / 1000)  # clocks differ
        return max(0.0, period_s - past_s)

    async def _check_now(self, check: AllLedgersCheck) -> bool:
        began_s = self._clock.monotonic_s()
        self._check_news.set()
        logger.info("check_of_all_ledgers_begins")
        is_done = await check.run(self._config.ledger_checks_at_once, self._excused)
        if is_done:
            await self._marks.set_last_run_ms(ALL_LEDGERS, self._clock.now_ms())
            self._metrics.check_all_ledgers_seconds.observe(self._clock.monotonic_s() - began_s)
        logger.info("check_of_all_ledgers_ended done=%s", is_done)
        return is_done

    async def _excused(self) -> Collection[BookieId] | None:
        async with self._check_turn:  # many ask at once: all wait for the one who looks
            if self._check_news.is_set():
                self._check_news.clear()
                if not await self._marks.is_enabled(self._on_change):
                    self._check_news.set()  # whoever asks next is to stop as well
                    return None
                await self._look_around()
        if not (await self._registrations.look()).available:
            return None
        in_grace = self._rules.in_grace
        return [in_grace] if in_grace is not None else []

    def _hear(self) -> None:
        self._news.set()
        self._check_news.set()

    def _on_change(self, _path: str, _event: WatchEvent) -> None:
        self._hear()
