"""Kill the broker in the middle of transactions: each is all or nothing, places included."""

import os
import random
import time
from collections.abc import Callable

import pytest

from tests.cluster.bank import TELLERS, Teller, check, open_bank
from tests.process import TailraceProcess

pytestmark = [pytest.mark.crash, pytest.mark.timeout(1800)]

_KILLS = int(os.environ.get("KILLS", "12"))
"""`KILLS=50` by hand; the suite cannot wait so long."""
_PROGRESS = 3
"""Transactions of each teller between two kills: every life commits something."""
_WITHIN_S = 120


def test_transactions_are_all_or_nothing(broker_factory: Callable[..., TailraceProcess]) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    moments = random.Random(seed)
    broker = broker_factory().start()
    open_bank(broker.bootstrap)
    tellers = [Teller(broker.bootstrap, number, seed) for number in range(TELLERS)]
    for teller in tellers:
        teller.start()
    for _ in range(_KILLS):
        _wait_for_progress(tellers)
        time.sleep(moments.random() * 0.1)  # the random moment itself, not a synchronisation
        broker.kill()
        broker.restart()
    _wait_for_progress(tellers)
    for teller in tellers:
        teller.stop()
    check(broker.bootstrap, tellers, f"seed {seed}")
    assert broker.stop() == 0
    broker.restart()
    check(broker.bootstrap, tellers, f"seed {seed}, after a clean stop")


def _wait_for_progress(tellers: list[Teller]) -> None:
    targets = [teller.transactions + _PROGRESS for teller in tellers]
    deadline = time.monotonic() + _WITHIN_S
    while any(each.transactions < to for each, to in zip(tellers, targets, strict=True)):
        assert time.monotonic() < deadline, "no progress"
        for teller in tellers:
            assert teller.errors == []
        time.sleep(0.005)
