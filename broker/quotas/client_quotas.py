"""The quotas as they are enforced on this broker: who has some, and what was used of them.

Flow: QuotaRegistry -> `apply`; a connection asks `enforced` once per request, and only if it is set
`of_request`, which mostly says that the client has no quota.
"""

from tailrace.broker.quotas.accounts import Accounts
from tailrace.broker.quotas.config import QuotaConfig
from tailrace.broker.quotas.connection_rates import ConnectionRates
from tailrace.broker.quotas.entity import CONNECTION_CREATION_RATE
from tailrace.broker.quotas.metrics import QuotaMetrics
from tailrace.broker.quotas.rate import Windows
from tailrace.broker.quotas.request_quota import RequestQuota
from tailrace.broker.quotas.table import Quotas, connection_rates
from tailrace.core.runtime.clock import Clock


class ClientQuotas:
    """What clients and addresses may use."""

    def __init__(self, config: QuotaConfig, clock: Clock) -> None:
        self.enforced = False
        """Whether any client has a quota."""
        self.metrics = QuotaMetrics()
        self.connections = ConnectionRates(Windows(config.windows, config.window_s * 1000))
        self._longest_ms = config.window_s * 1000
        self._accounts = Accounts(config)
        self._clock = clock

    def apply(self, quotas: Quotas) -> None:
        """Enforce these quotas from now on, and no others."""
        of_clients = {
            entity: values
            for entity, values in quotas.items()
            if CONNECTION_CREATION_RATE not in values
        }
        self._accounts.apply(of_clients)
        self.connections.apply(connection_rates(quotas))
        self.enforced = bool(of_clients)
        self.metrics.accounts = len(self._accounts)

    def of_request(self, user: str, client_id: str | None) -> RequestQuota | None:
        """Return what a request of a client is charged to, or None if it has no quota."""
        now_ms = self.now_ms()
        accounts = self._accounts.of(user, client_id or "", now_ms)
        if accounts is None:
            return None
        self.metrics.accounts = len(self._accounts)
        return RequestQuota(accounts, self._longest_ms, self._clock, self.metrics)

    def now_ms(self) -> int:
        """Return the time that rates are measured in."""
        return int(self._clock.monotonic_s() * 1000)
