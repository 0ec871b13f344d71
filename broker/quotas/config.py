"""Settings of quotas, by Kafka's names."""

from dataclasses import dataclass

from tailrace.core.runtime.config import ConfigError, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaConfig:
    """Over how long a client's use is averaged. Errors: ConfigError. Source: Kafka QuotaConfig."""

    windows: int = setting(
        "quota.window.num",
        11,
        "Windows over which the rates of clients and of new connections are averaged.",
    )
    window_s: int = setting(
        "quota.window.size.seconds",
        1,
        "Length of one window; also the longest wait for request_percentage. Unit: seconds.",
    )
    controller_windows: int = setting(
        "controller.quota.window.num",
        11,
        "Windows whose worth of controller_mutation_rate may be used in one burst.",
    )
    controller_window_s: int = setting(
        "controller.quota.window.size.seconds", 1, "Length of one such window. Unit: seconds."
    )

    def __post_init__(self) -> None:
        for name in ("windows", "window_s", "controller_windows", "controller_window_s"):
            value = getattr(self, name)
            if value < 1:
                raise ConfigError(f"quota {name} is {value}, it must be at least 1")
