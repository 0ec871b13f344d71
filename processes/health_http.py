"""A small HTTP port for health and metrics, by BookKeeper's names."""

from contextlib import AsyncExitStack
from dataclasses import dataclass, field

from tailrace.core.runtime.config import PortNumber, setting
from tailrace.core.runtime.http import HttpReply, prometheus_text
from tailrace.core.runtime.metrics import Metrics
from tailrace.core.runtime.task_health import task_health
from tailrace.core.security.http_port import HttpTlsConfig, http_server


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthHttpConfig:
    """Health and metrics over HTTP, by the names that bookies have for it."""

    enabled: bool = setting(
        "httpServerEnabled",
        False,
        "Answer /health and /metrics over HTTP, to whoever reaches the port; with "
        "httpServerTrustStorePath, to those who have a certificate.",
    )
    host: str = setting("httpServerHost", "127.0.0.1", "Address of the HTTP port.")
    port: PortNumber = setting("httpServerPort", 8080, "The HTTP port; 0 picks one.")
    tls: HttpTlsConfig = field(default_factory=HttpTlsConfig)


async def serve_health(config: HealthHttpConfig, metrics: Metrics, stack: AsyncExitStack) -> None:
    """Serve the port until the stack closes, if it is wanted.

    Errors: OSError (it is taken), InvalidKeys.
    """
    if config.enabled:
        http = http_server(
            config.host,
            config.port,
            {
                ("GET", "/health"): lambda _: HttpReply(task_health().status()),
                ("GET", "/metrics"): lambda _: prometheus_text(metrics),
            },
            config.tls,
        )
        stack.push_async_callback(http.close)
        await http.start()
