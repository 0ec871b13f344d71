"""Settings of the broker's HTTP port."""

from dataclasses import dataclass

from core.runtime.config import setting


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpConfig:
    """The HTTP port: health, metrics, the cleaner, what topics hold. No authentication."""

    enabled: bool = setting(
        "admin.http.enable", False, "Serve health, metrics and administration over HTTP."
    )
    host: str = setting(
        "admin.http.host", "127.0.0.1", "Address of the HTTP port; only operators may reach it."
    )
    port: int = setting("admin.http.port", 9094, "The HTTP port; 0 picks one.")
