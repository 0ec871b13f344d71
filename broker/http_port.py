"""The broker's HTTP port as it runs: handlers, guard, and TLS if it is wanted."""

import sys
from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import TypeAlias

from tailrace.broker.broker import Broker
from tailrace.broker.http_access import HttpAccess
from tailrace.broker.http_admin import BrokerHttp
from tailrace.compaction.cleaner.pool import CleanerPool
from tailrace.core.access.callers import Callers, Means, user_of_certificate
from tailrace.core.access.principals import PrincipalRules
from tailrace.core.runtime.http import Asked, Handler, HttpServer
from tailrace.core.runtime.metrics import Metrics

At: TypeAlias = tuple[str, int, Mapping[tuple[str, str], Handler | Asked]]
"""Host, port, routes."""


async def serve_http(
    broker: Broker, cleaner: CleanerPool, metrics: Metrics, stack: AsyncExitStack
) -> None:
    """Serve the HTTP port until the stack closes, if there is to be one, and say where.

    Errors: OSError when the address is taken; InvalidKeys.
    """
    config = broker.config.http
    if not config.enabled:
        return
    handlers = BrokerHttp(broker, cleaner, metrics)
    stack.push_async_callback(handlers.close)
    access = http_access(broker)
    metrics.register("admin_http", access.metrics)
    at = (config.host, config.port, handlers.routes())
    if config.is_secured:
        server = _https(broker, at, access, metrics)
    else:
        server = HttpServer(*at, guard=access.refusal)
    stack.push_async_callback(server.close)
    await server.start()
    host = f"[{config.host}]" if ":" in config.host else config.host
    scheme = "https" if config.is_secured else "http"
    sys.stdout.write(f"admin: {scheme}={host}:{server.port}\n")
    sys.stdout.flush()


def _https(broker: Broker, at: At, access: HttpAccess, metrics: Metrics) -> HttpServer:
    from tailrace.core.security.https import HttpsServer  # 100 ms, for those who need it

    server = HttpsServer(*at, broker.config.network.tls, guard=access.refusal)
    tls = server.tls
    broker.configs.listen(lambda changed: tls.configure(changed.network.tls))
    broker.configs.check_slowly_with(lambda _, wanted: tls.check(wanted.network.tls))
    metrics.register("admin_http_tls", tls.metrics)
    return server


def http_access(broker: Broker) -> HttpAccess:
    """Return the guard of a broker's HTTP port."""
    config = broker.config.http
    rules = PrincipalRules(broker.config.network.principal_rules)
    means = Means(
        passwords=broker.authentication.passwords if "basic" in config.authentication else None,
        tokens=broker.authentication.bearers.check if "bearer" in config.authentication else None,
        user_of_certificate=user_of_certificate(rules)
        if "certificate" in config.authentication
        else None,
    )
    callers = Callers(means, lambda: broker.config.network.sasl.failed_delay_ms)
    return HttpAccess(callers, lambda: broker.authorizer, config.open_paths, broker.audit)
