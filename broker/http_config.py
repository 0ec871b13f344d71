"""Settings of the broker's HTTP port."""

from dataclasses import dataclass

from tailrace.core.runtime.config import ConfigError, PortNumber, setting

VIEWS_BYTES_MIN = 1_048_576


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpConfig:
    """The HTTP port: health, metrics, the cleaner, what topics hold. No authentication."""

    enabled: bool = setting(
        "admin.http.enable", False, "Serve health, metrics and administration over HTTP."
    )
    host: str = setting(
        "admin.http.host", "127.0.0.1", "Address of the HTTP port; only operators may reach it."
    )
    port: PortNumber = setting("admin.http.port", 9094, "The HTTP port; 0 picks one.")
    views_bytes: int = setting(
        "admin.http.views.bytes",
        134_217_728,
        "Memory for the keys of topics that are asked about, 24 bytes a key. Unit: bytes.",
    )

    def __post_init__(self) -> None:
        if self.views_bytes < VIEWS_BYTES_MIN:
            raise ConfigError(f"admin.http.views.bytes must be at least {VIEWS_BYTES_MIN}")
