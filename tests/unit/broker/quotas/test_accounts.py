"""Who shares an account, how many there are, and what a request is charged."""

import asyncio

import pytest

from tailrace.broker.errors import KafkaError
from tailrace.broker.quotas import accounts as module
from tailrace.broker.quotas.accounts import Accounts, ClientAccounts
from tailrace.broker.quotas.config import QuotaConfig
from tailrace.broker.quotas.connection_rates import ConnectionRates
from tailrace.broker.quotas.entity import QuotaEntity, entity_of
from tailrace.broker.quotas.metrics import QuotaMetrics
from tailrace.broker.quotas.rate import Windows
from tailrace.broker.quotas.request_quota import RequestQuota
from tailrace.broker.quotas.table import Quotas
from tailrace.core.runtime.clock import ManualClock
from tailrace.core.runtime.config import ConfigError
from tailrace.protocol.errors import ErrorCode


def entity(**names: str | None) -> QuotaEntity:
    return entity_of((kind.replace("_", "-"), names[kind]) for kind in names)


def accounts_of(quotas: Quotas) -> Accounts:
    accounts = Accounts(QuotaConfig())
    accounts.apply(quotas)
    return accounts


def found(accounts: Accounts, client_id: str, user: str = "u") -> ClientAccounts:
    got = accounts.of(user, client_id, 0)
    assert got is not None
    return got


def test_clients_share_what_their_user_has_and_not_what_each_has() -> None:
    shared = accounts_of({entity(user=None): {"producer_byte_rate": 1.0}})
    assert found(shared, "a").produce is found(shared, "b").produce
    assert found(shared, "a", "other").produce is not found(shared, "a").produce
    own = accounts_of({entity(client_id=None): {"producer_byte_rate": 1.0}})
    assert found(own, "a").produce is not found(own, "b").produce
    assert found(own, "a", "other").produce is found(own, "a").produce


def test_what_was_used_stays_used_when_the_bound_changes() -> None:
    accounts = accounts_of({entity(client_id="a"): {"producer_byte_rate": 10.0}})
    before = found(accounts, "a").produce
    assert before is not None
    assert before.charge(1000, 0) > 0
    accounts.apply({entity(client_id="a"): {"producer_byte_rate": 1000.0}})
    after = found(accounts, "a").produce
    assert after is before
    assert after.charge(1, 0) == 0
    accounts.apply({entity(client_id="a"): {"producer_byte_rate": 10.0}})
    again = found(accounts, "a").produce
    assert again is before
    assert again.charge(1, 0) > 0


def test_there_are_never_more_accounts_than_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ACCOUNTS_MAX", 10)
    accounts = accounts_of({entity(client_id=None): {"producer_byte_rate": 10.0}})
    busy = found(accounts, "busy").produce
    assert busy is not None
    for number in range(100):
        assert accounts.of("u", f"c{number}", number) is not None
        busy.note(1, number)
        assert len(accounts) <= 10
    assert found(accounts, "busy").produce is busy  # who is heard of is not forgotten


def request_of(clock: ManualClock, **bounds: float) -> RequestQuota:
    accounts = accounts_of({entity(client_id=None): bounds})
    return RequestQuota(found(accounts, "a"), 1000, clock, QuotaMetrics())


def test_a_strict_mutation_quota_refuses_when_it_is_used_up() -> None:
    clock = ManualClock()
    quota = request_of(clock, controller_mutation_rate=1.0)
    quota.mutate(20, strict=True)  # eleven were there: it may be overdrawn once
    assert quota.throttle_ms == 0
    with pytest.raises(KafkaError) as refused:
        quota.mutate(1, strict=True)
    assert refused.value.code is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert quota.throttle_ms == 9000
    clock.advance_ms(9000)
    quota.mutate(1, strict=True)


def test_a_permissive_one_lets_the_client_wait() -> None:
    quota = request_of(ManualClock(), controller_mutation_rate=1.0)
    quota.mutate(20, strict=False)
    assert quota.throttle_ms == 9000
    quota.mutate(1, strict=False)
    assert quota.throttle_ms == 10_000


def test_what_has_no_quota_is_free() -> None:
    quota = request_of(ManualClock(), request_percentage=1.0)
    quota.mutate(1 << 30, strict=True)
    quota.produced(1 << 30)
    quota.fetched(1 << 30)
    assert quota.fetch_bytes_max(77) == 77
    assert quota.throttle_ms == 0


def test_a_fetch_that_brings_nothing_costs_nothing() -> None:
    accounts = accounts_of({entity(client_id=None): {"consumer_byte_rate": 100.0}})
    waits = []
    for size in (600, 900, 300):
        quota = RequestQuota(found(accounts, "a"), 1000, ManualClock(), QuotaMetrics())
        quota.fetched(size)
        waits.append(quota.throttle_ms > 0)
    assert waits == [False, True, False]


def test_what_a_waiting_handler_is_told_reaches_it() -> None:
    quota = request_of(ManualClock(), request_percentage=1.0)

    async def handler() -> str:
        try:
            await asyncio.sleep(0)  # waits for nothing that could be cancelled in its place
        except asyncio.CancelledError:
            return "told"
        return "not told"

    async def main() -> None:
        async def waiting() -> str:
            return await quota.timed(handler())

        task = asyncio.create_task(waiting())
        await asyncio.sleep(0)
        task.cancel()
        assert await task == "told"

    asyncio.run(main())


def test_the_time_of_a_block_is_charged_once() -> None:
    clock = ManualClock()
    quota = request_of(clock, request_percentage=10.0)
    with quota:
        clock.advance_ms(1000)
    quota.charge_time()
    assert quota.throttle_ms == 0  # a tenth of the windows is its share
    with quota:
        clock.advance_ms(100)
    quota.note_time()
    assert quota.throttle_ms == 0
    quota.charge_time()
    assert quota.throttle_ms > 0  # what was only noted counts as well


def test_addresses_that_are_too_fast_do_not_count() -> None:
    rates = ConnectionRates(Windows(11, 1000))
    rates.apply({None: 1, "10.0.0.9": 2})
    assert [rates.refusal_ms("10.0.0.1", 0) for _ in range(12)] == [0] * 10 + [1000, 1000]
    assert [rates.refusal_ms("10.0.0.9", 0) for _ in range(23)] == [0] * 20 + [500] * 3
    assert rates.refusal_ms("10.0.0.1", 11_000) == 0


def test_connections_that_are_refused_hold_nobody_up() -> None:
    rates = ConnectionRates(Windows(11, 1000))
    rates.apply({"10.0.0.1": 1})
    for _ in range(30):
        rates.delay_ms(1 << 30, 0)
        rates.refusal_ms("10.0.0.1", 0)
    assert rates.delay_ms(2, 0) == 0  # ten were taken


@pytest.mark.parametrize(
    "name", ["windows", "window_s", "controller_windows", "controller_window_s"]
)
def test_windows_are_at_least_one(name: str) -> None:
    with pytest.raises(ConfigError):
        QuotaConfig(**{name: 0})
