"""Numbers of auto-recovery's auditor. Register them as `replication_auditor`.

What BookKeeper counts under the same prefix has its name in lower case and with a unit.
"""

from dataclasses import dataclass

from tailrace.core.runtime.metrics import Histogram, counter, gauge, histogram

_SECONDS = (0.01, 0.1, 0.5, 1.0, 5.0, 10.0, 60.0, 600.0, 3_600.0, 36_000.0)
_NUMBERS = (0, 1, 10, 100, 1_000, 10_000, 100_000, 1_000_000)


@dataclass(slots=True)
class AuditorMetrics:
    """One candidate; all but the first three stand still while another is the auditor."""

    elected: int = gauge("1 while this process is the auditor")
    election_attempts_total: int = counter("votes that this process gave")
    election_failures_total: int = counter("votes that the metadata store did not take")
    audits_total: int = counter("audits for lost bookies that ended")
    failures_total: int = counter("audits and checks that were cut short, to be done again")
    num_under_replicated_ledgers: Histogram = histogram("ledgers that one audit marked", _NUMBERS)
    under_replicated_ledgers_total: int = counter("ledgers marked, each as often as it was")
    mark_failures_total: int = counter("ledgers that could not be marked: others changed the mark")
    unreadable_ledgers_total: int = counter("ledgers whose metadata an audit could not read")
    audit_bookies_seconds: Histogram = histogram("time of one audit", _SECONDS)
    check_all_ledgers_seconds: Histogram = histogram("time of one check of all ledgers", _SECONDS)
    num_ledgers_checked_total: int = counter("ledgers whose entries were asked for")
    check_failures_total: int = counter("ledgers whose entries could not be asked for")
    num_bookie_audits_delayed_total: int = counter("times that a lost bookie was given time")
    num_delayed_bookie_audits_cancelled_total: int = counter(
        "times that it came back, or another was lost too, before that was over"
    )
    lost_bookies: int = gauge("bookies that are not registered and were before")
