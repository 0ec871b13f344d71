"""A small HTTP port for health and metrics, by BookKeeper's names."""

from contextlib import AsyncExitStack
from dataclasses import dataclass

from tailrace.core.runtime.config import PortNumber, setting
from tailrace.core.runtime.http import HttpReply, HttpServer, prometheus_text
from tailrace.core.runtime.metrics import Metrics
from tailrace.core.runtime.task_health import task_health


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthHttpConfig:
    """Health and metrics over HTTP, by the names that bookies have for it."""

    enabled: bool = setting(
        "httpServerEnabled", False, "Answer /health and /metrics over HTTP, without authentication."
    )
    host: str = setting("httpServerHost", "127.0.0.1", "Address of the HTTP port.")
    port: PortNumber = setting("httpServerPort", 8080, "The HTTP port; 0 picks one.")


async def serve_health(config: HealthHttpConfig, metrics: Metrics, stack: AsyncExitStack) -> None:
    """Serve the port until the stack closes, if it is wanted. Errors: OSError (it is taken)."""
    if config.enabled:
        http = HttpServer(
            config.host,
            config.port,
            {
                ("GET", "/health"): lambda _: HttpReply(task_health().status()),
                ("GET", "/metrics"): lambda _: prometheus_text(metrics),
            },
        )
        stack.push_async_callback(http.close)
        await http.start()
