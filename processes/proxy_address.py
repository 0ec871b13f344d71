"""Where a proxy listens, and what its clients connect to: its settings."""

from dataclasses import dataclass
from typing import Annotated, Final

import msgspec

from tailrace.broker.listeners import EVERYWHERE, PORT_MAX, Endpoint
from tailrace.core.runtime.config import setting
from tailrace.core.runtime.decimal_text import INT32_MAX, decimal

PROXY_PORT: Final = 8000
"""The port of the write proxy in DistributedLog's tutorials (`inet!127.0.0.1:8000`)."""
READ_PROXY_PORT: Final = 8001
"""The next one: DistributedLog has no read proxies."""
_HOST_MAX: Final = 255
_Region = Annotated[str, msgspec.Meta(max_length=255)]
_Shard = Annotated[int, msgspec.Meta(ge=0, le=INT32_MAX)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyAddressConfig:
    """Where a proxy listens, and what its clients connect to."""

    listener: str = setting(
        "proxy.listener",
        f"127.0.0.1:{PROXY_PORT}",
        "HOST:PORT of the gRPC port; port 0 picks one.",
    )
    advertised: str = setting(
        "proxy.advertised.listener",
        "",
        "HOST:PORT that clients connect to, as locks and the registration say it. Unset: where it"
        " listens. DistributedLog's clients agree about it if it is an IP address",
    )
    shard: _Shard = setting(
        "proxy.shard",
        0,
        "The proxy's place on the ring that spreads streams; each proxy needs one of its own, and"
        " keeps it when it restarts",
    )
    region: _Region = setting(
        "proxy.region",
        "",
        "The region that the proxy is in, as its registration says it: clients ask proxies of their"
        " own region first. Unset: the first of four parts of its host's name, as of eu-r1-proxy-7",
    )

    def __post_init__(self) -> None:
        at, found = self.at, self.advertised_at(0)
        if found.host in EVERYWHERE:
            raise ValueError(
                f"proxy.advertised.listener: no client can connect to {found.host or at.host!r}:"
                " give the host that they are to use (--advertise HOST:PORT)"
            )

    @property
    def at(self) -> Endpoint:
        """Where it listens."""
        return _endpoint(self.listener, "proxy.listener")

    def advertised_at(self, bound_port: int) -> Endpoint:
        """Where clients connect to, once the proxy listens on a port."""
        if not self.advertised:
            return Endpoint(self.at.host, bound_port)
        found = _endpoint(self.advertised, "proxy.advertised.listener")
        return found if found.port else Endpoint(found.host, bound_port)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadProxyAddressConfig(ProxyAddressConfig):
    """The same of a read proxy."""

    listener: str = setting(
        "proxy.listener",
        f"127.0.0.1:{READ_PROXY_PORT}",
        "HOST:PORT of the gRPC port; port 0 picks one.",
    )


def _endpoint(text: str, key: str) -> Endpoint:
    """Read HOST:PORT or [IPV6]:PORT. Errors: ValueError."""
    host, colon, digits = text.rpartition(":")
    port = decimal(digits, PORT_MAX)
    is_bracketed = host.startswith("[") and host.endswith("]")
    if not colon or port is None or len(host) > _HOST_MAX or (":" in host and not is_bracketed):
        raise ValueError(f"{key}: {text!r} is not HOST:PORT, as 127.0.0.1:{PROXY_PORT}")
    return Endpoint(host.strip("[]"), port)
