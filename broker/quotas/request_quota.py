"""One request of a client that has quotas: what it uses is charged here, and makes the client wait.

A handler charges what only it knows (partitions made or deleted); the connection charges bytes and
time, and does the waiting. Requests of clients without quotas have none of this.
Source: kafka.server.KafkaApis, RequestHandlerHelper; KIP-124, KIP-219, KIP-599.
"""

from collections.abc import Coroutine, Generator
from types import TracebackType, coroutine
from typing import Any, Final, Self, TypeVar

from tailrace.broker.errors import KafkaError
from tailrace.broker.quotas.accounts import ClientAccounts
from tailrace.broker.quotas.metrics import QuotaMetrics
from tailrace.core.runtime.clock import Clock
from tailrace.protocol.errors import ErrorCode

R = TypeVar("R")

_PER_CENT: Final = 100.0
"""A second of the broker's loop in each second is 100 per cent."""


class RequestQuota:
    """What one request used. `with quota:` counts the time of the block. For the loop only."""

    __slots__ = ("_accounts", "_clock", "_entered_s", "_longest_ms", "_metrics", "_spent_s",
                 "throttle_ms")  # fmt: skip

    def __init__(
        self, accounts: ClientAccounts, longest_ms: int, clock: Clock, metrics: QuotaMetrics
    ) -> None:
        """`longest_ms`: the longest wait for a request's time."""
        self._accounts = accounts
        self._longest_ms = longest_ms
        self._clock = clock
        self._metrics = metrics
        self._entered_s = 0.0
        self._spent_s = 0.0  # and not charged yet
        self.throttle_ms = 0
        """How long the client has to wait after this request, as far as that is known."""

    def __enter__(self) -> Self:
        """Begin to count time."""
        self._entered_s = self._clock.monotonic_s()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        """Count the time of the block; what it raised goes on."""
        self._spent_s += self._clock.monotonic_s() - self._entered_s

    @coroutine
    def timed(self, work: Coroutine[Any, Any, R]) -> Generator[Any, Any, R]:
        """Run a coroutine and count the time of its steps, not of its waits."""
        error: BaseException | None = None
        while True:
            try:
                with self:
                    waits_for = work.send(None) if error is None else work.throw(error)
            except StopIteration as done:
                result: R = done.value
                return result
            try:
                yield waits_for
                error = None
            except BaseException as thrown:  # noqa: BLE001 - the coroutine's own, handed on to it
                error = thrown

    def fetch_bytes_max(self, asked: int) -> int:
        """Return how much a fetch may bring: what is more would have to wait, each time anew."""
        account = self._accounts.fetch
        return asked if account is None else int(min(asked, account.most_at_once))

    def produced(self, size: int) -> None:
        """Charge the bytes of a produce."""
        account = self._accounts.produce
        if account is not None and (wait_ms := account.charge(size, self._now_ms())):
            self._metrics.produce_throttled_total += 1
            self._wait(wait_ms)

    def fetched(self, size: int) -> None:
        """Charge a fetch. If the client has to wait, the answer goes empty, and costs nothing."""
        account, now_ms = self._accounts.fetch, self._now_ms()
        self.charge_time()
        if account is None:
            return
        if wait_ms := account.charge(size, now_ms):
            self._metrics.fetch_throttled_total += 1
            self._wait(wait_ms)
        if self.throttle_ms:
            account.note(-size, now_ms)

    def mutate(self, count: int, *, strict: bool) -> None:
        """Charge partitions that are made or deleted, before that happens.

        `strict`: an exhausted quota refuses; clients of older versions only wait afterwards.
        Errors: KafkaError THROTTLING_QUOTA_EXCEEDED.
        """
        account = self._accounts.mutations
        if account is None:
            return
        wait_ms = account.charge(count, self._now_ms(), strict=strict)
        if not wait_ms:
            return
        self._metrics.mutation_throttled_total += 1
        self._wait(wait_ms)
        if strict:
            detail = "The throttling quota has been exceeded."
            raise KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, detail)

    def charge_time(self) -> None:
        """Charge the time that was counted; a client over its share waits, one window at most."""
        account = self._accounts.request
        if account is not None:
            wait_ms = account.charge(self._take_time(), self._now_ms())
            if wait_ms:
                self._metrics.request_throttled_total += 1
                self._wait(min(wait_ms, self._longest_ms))

    def note_time(self) -> None:
        """Charge what was counted after the answer was made; the next request waits for it."""
        account = self._accounts.request
        if account is not None:
            account.note(self._take_time(), self._now_ms())

    def _take_time(self) -> float:
        spent_s, self._spent_s = self._spent_s, 0.0
        return spent_s * _PER_CENT

    def _wait(self, wait_ms: int) -> None:
        self.throttle_ms = max(self.throttle_ms, wait_ms)

    def _now_ms(self) -> int:
        return int(self._clock.monotonic_s() * 1000)
