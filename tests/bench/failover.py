"""The owner of a log dies (kill -9): how long until another process has a record confirmed.

On three bookies of ours, with a session timeout of a second; the next owner waits in line. What the
time consists of: ZooKeeper ends the dead owner's session (detection), the new owner fences and
recovers the ledger, completes the segment, starts the next one and writes. The ticks of ZooKeeper
bound how exactly a session ends: here 200 ms.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tests.bench.bookies import TAILRACE, started
from tests.bench.logs import OURS, Figures, bind
from tests.failover import SESSION_MS, fail_over

_FAILOVERS: Final = 5


def measure(zookeeper: str, folder: Path, steps: Callable[[str], None]) -> Figures:
    """Run one round; return figures by library."""
    with started(TAILRACE, 3, zookeeper, folder / "failover") as bookies:
        path = "/messaging/failover"
        asyncio.run(bind(bookies.uri, zookeeper, path))
        uri = f"distributedlog://{zookeeper}{path}"
        seen = []
        for number in range(_FAILOVERS):
            seen.append(asyncio.run(fail_over(uri, f"failing-{number}")))
            steps(f"failover {number + 1}, {seen[-1].total_ms:.0f} ms")
    worst = max(seen, key=lambda each: each.total_ms)
    return {
        OURS: {
            f"failover, session {SESSION_MS} ms: to the first record, ms": worst.total_ms,
            "failover: detection, ms": worst.detection_ms,
            "failover: fence and recover the ledger, ms": worst.ledger_recovery_ms,
            "failover: complete the segment and become owner, ms": worst.take_over_ms
            - worst.ledger_recovery_ms,
            "failover: start the segment and append, ms": worst.first_append_ms,
        }
    }
