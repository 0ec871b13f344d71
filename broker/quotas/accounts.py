"""What clients used of their quotas: one account for all requests that share a bound. Pure.

Client ids are whatever clients say, so the number of accounts is bounded: of too many, those that
were silent longest go. An account that was silent for all windows has nothing to remember anyway.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias

from tailrace.broker.quotas.config import QuotaConfig
from tailrace.broker.quotas.entity import (
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
)
from tailrace.broker.quotas.rate import SampledRate, TokenBucket, Windows
from tailrace.broker.quotas.table import Limit, Quotas, limit_of

ACCOUNTS_MAX: Final = 10_000
"""Accounts that are kept, about a kilobyte each, and clients whose accounts are known."""


class RateAccount:
    """A rate and its bound."""

    __slots__ = ("_windows", "bound", "rate", "used_ms")

    def __init__(self, windows: Windows, bound: float, now_ms: int) -> None:
        self._windows = windows
        self.bound = bound
        self.rate = SampledRate(windows)
        self.used_ms = now_ms

    @property
    def most_at_once(self) -> float:
        """The most that need not wait when nothing was used before."""
        return self.bound * (self._windows.number - 1) * self._windows.length_ms / 1000

    def charge(self, value: float, now_ms: int) -> int:
        """Add to the rate; return how long to wait until it is within its bound, mostly 0 ms."""
        self.note(value, now_ms)
        return self.rate.wait_ms(self.bound, now_ms)

    def note(self, value: float, now_ms: int) -> None:
        """Add to the rate, or with a negative value take back: what comes next pays for it."""
        self.used_ms = now_ms
        self.rate.record(value, now_ms)


class BucketAccount:
    """A token bucket and its bound."""

    __slots__ = ("bound", "bucket", "used_ms")

    def __init__(self, windows: Windows, bound: float, now_ms: int) -> None:
        self.bound = bound
        self.bucket = TokenBucket(windows, bound, now_ms)
        self.used_ms = now_ms

    def charge(self, count: float, now_ms: int, *, strict: bool) -> int:
        """Take credits; return how long to wait until there are some again, mostly 0 ms.

        `strict`: an overdrawn bucket gives nothing. Else it is overdrawn further.
        """
        self.used_ms = now_ms
        if not strict or self.bucket.tokens(self.bound, now_ms) >= 0:
            self.bucket.take(count, self.bound, now_ms)
            if strict:
                return 0
        return self.bucket.wait_ms(self.bound, now_ms)


class ClientAccounts(NamedTuple):
    """What the requests of one client are charged to; None where there is no quota."""

    produce: RateAccount | None
    fetch: RateAccount | None
    request: RateAccount | None
    mutations: BucketAccount | None


Account: TypeAlias = RateAccount | BucketAccount
_Owner: TypeAlias = tuple[str, str, str]  # key, user, client id


class Accounts:
    """All accounts of a broker."""

    def __init__(self, config: QuotaConfig) -> None:
        self._windows = Windows(config.windows, config.window_s * 1000)
        self._bucket_windows = Windows(config.controller_windows, config.controller_window_s * 1000)
        self._quotas: Quotas = MappingProxyType({})
        self._accounts: dict[_Owner, Account] = {}
        self._clients: dict[tuple[str, str], ClientAccounts | None] = {}

    def __len__(self) -> int:
        """Return how many accounts there are."""
        return len(self._accounts)

    def apply(self, quotas: Quotas) -> None:
        """Use other bounds from now on; what was used stays used."""
        self._quotas = quotas
        self._clients.clear()
        if not quotas:
            self._accounts.clear()

    def of(self, user: str, client_id: str, now_ms: int) -> ClientAccounts | None:
        """Return what a client's requests are charged to, or None if it has no quota.

        Cost: one look-up, but for a client that was not seen since quotas changed.
        """
        try:
            return self._clients[user, client_id]
        except KeyError:
            pass
        found = self._look_up(user, client_id, now_ms)
        if len(self._clients) >= ACCOUNTS_MAX:
            self._clients.clear()
        self._clients[user, client_id] = found
        return found

    def _look_up(self, user: str, client_id: str, now_ms: int) -> ClientAccounts | None:
        limits = {
            key: limit_of(self._quotas, key, user, client_id)
            for key in (
                PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE, REQUEST_PERCENTAGE, CONTROLLER_MUTATION_RATE
            )
        }  # fmt: skip
        if not any(limits.values()):
            return None
        return ClientAccounts(
            self._rate(PRODUCER_BYTE_RATE, limits, now_ms),
            self._rate(CONSUMER_BYTE_RATE, limits, now_ms),
            self._rate(REQUEST_PERCENTAGE, limits, now_ms),
            self._bucket(CONTROLLER_MUTATION_RATE, limits, now_ms),
        )

    def _rate(
        self, key: str, limits: Mapping[str, Limit | None], now_ms: int
    ) -> RateAccount | None:
        limit = limits[key]
        if limit is None:
            return None
        owner = (key, limit.user, limit.client_id)
        account = self._accounts.get(owner)
        if not isinstance(account, RateAccount):
            account = RateAccount(self._windows, limit.bound, now_ms)
            self._keep(owner, account)
        account.bound = limit.bound
        return account

    def _bucket(
        self, key: str, limits: Mapping[str, Limit | None], now_ms: int
    ) -> BucketAccount | None:
        limit = limits[key]
        if limit is None:
            return None
        owner = (key, limit.user, limit.client_id)
        account = self._accounts.get(owner)
        if not isinstance(account, BucketAccount):
            account = BucketAccount(self._bucket_windows, limit.bound, now_ms)
            self._keep(owner, account)
        account.bound = limit.bound
        return account

    def _keep(self, owner: _Owner, account: Account) -> None:
        if len(self._accounts) >= ACCOUNTS_MAX:
            by_use = sorted(self._accounts, key=lambda each: self._accounts[each].used_ms)
            for each in by_use[: ACCOUNTS_MAX // 2]:
                del self._accounts[each]
            self._clients.clear()  # they know accounts that are none any more
        self._accounts[owner] = account
