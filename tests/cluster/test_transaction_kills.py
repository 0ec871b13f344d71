"""Kill the broker in the middle of transactions: each is all or nothing, places included.

librdkafka, which keeps the bank, does not speak transaction version 2; raw requests do here.
"""

import os
import random
import threading
import time
from collections.abc import Callable

import pytest

from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.kafka.apis import FIND_COORDINATOR
from tailrace.protocol.kafka.messages.find_coordinator import FindCoordinatorRequest
from tests.cluster.bank import TELLERS, Teller, check, open_bank
from tests.cluster.raw import Closed, RawClient
from tests.cluster.transaction_story import Producer, Story
from tests.process import TailraceProcess

pytestmark = [pytest.mark.crash, pytest.mark.slow, pytest.mark.timeout(1800)]

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


def test_version_2_is_all_or_nothing(broker_factory: Callable[..., TailraceProcess]) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    moments = random.Random(seed)
    broker = broker_factory().start()
    client = RawClient(broker)
    story = Story(broker, client)
    expected: list[bytes | None] = []
    for _ in range(_KILLS):
        me = story.init()
        killer = threading.Timer(moments.random() * 0.3, broker.kill)
        killer.start()
        begun = _transactions(story, me, expected)
        killer.join()
        client.close()
        broker.restart()
        story.client = client = RawClient(broker)
        request = FindCoordinatorRequest(key=story.name, key_type=1)
        assert client.ask(FIND_COORDINATOR, 2, request).error_code == ErrorCode.NONE
        story.init()  # decides what was open
        found = story.committed(story.a)
        assert found == story.committed(story.b), f"seed {seed}: torn"
        assert found in (expected, [*expected, begun]), f"seed {seed}: lost, doubled or undead"
        expected = found
        zombie = story.end(me, committed=True)
        assert zombie in (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    client.close()
    assert expected, "no transaction was ever committed"


def _transactions(story: Story, me: Producer, ended: list[bytes | None]) -> bytes:
    """Commit values one by one until the broker dies; return the one that was under way."""
    while True:
        value = b"%d" % len(ended)
        try:
            for topic in (story.a, story.b):
                code = story.patiently(story.write, me, topic, value)
                assert code is ErrorCode.NONE, code
            me = story.ended(me, committed=True)
        except (Closed, OSError):
            return value
        ended.append(value)
