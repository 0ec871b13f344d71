"""Settings of the broker's HTTP port."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from tailrace.core.access.callers import Scheme
from tailrace.core.runtime.config import ConfigError, PortNumber, setting
from tailrace.core.security.tls_config import TlsConfig

VIEWS_BYTES_MIN = 1_048_576
OpenPath: TypeAlias = Literal["/health", "/metrics"]


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpConfig:
    """The HTTP port: health, metrics, the cleaner, what topics hold."""

    enabled: bool = setting(
        "admin.http.enable", False, "Serve health, metrics and administration over HTTP."
    )
    host: str = setting("admin.http.host", "127.0.0.1", "Address of the HTTP port.")
    port: PortNumber = setting("admin.http.port", 9094, "The HTTP port; 0 picks one.")
    is_secured: bool = setting(
        "admin.http.ssl.enable",
        False,
        "Speak HTTPS there, with the certificate of ssl.keystore.* and, for clients' certificates, "
        "ssl.client.auth.",
    )
    authentication: tuple[Scheme, ...] = setting(
        "admin.http.authentication",
        (),
        "How clients of the HTTP port prove who they are, a list: basic (users and passwords, as "
        "for SASL), bearer (tokens, by sasl.oauthbearer.*), certificate (by TLS; "
        "ssl.principal.mapping.rules names the user). A client that does by none of them is "
        "refused. Empty: all of them are User:ANONYMOUS.",
    )
    open_paths: tuple[OpenPath, ...] = setting(
        "admin.http.open.paths",
        ("/health",),
        "Paths that everybody may ask for: /health, for what only sees that the process lives, and "
        "/metrics. Otherwise they need DESCRIBE on the cluster.",
    )
    views_bytes: int = setting(
        "admin.http.views.bytes",
        134_217_728,
        "Memory for the keys of topics that are asked about, 24 bytes a key. Unit: bytes.",
    )

    def __post_init__(self) -> None:
        if self.views_bytes < VIEWS_BYTES_MIN:
            raise ConfigError(f"admin.http.views.bytes must be at least {VIEWS_BYTES_MIN}")
        if "certificate" in self.authentication and not self.is_secured:
            raise ConfigError("admin.http.authentication: certificate needs admin.http.ssl.enable")

    def check_tls(self, tls: TlsConfig) -> None:
        """Refuse what `ssl.*` has nothing for. Errors: ValueError."""
        if self.is_secured and not tls.has_key:
            raise ValueError(
                "admin.http.ssl.enable: there is no certificate: set ssl.keystore.location"
            )
        if "certificate" in self.authentication and tls.client_auth == "none":
            raise ValueError(
                "admin.http.authentication: certificate: set ssl.client.auth to requested or "
                "required, and ssl.truststore.location"
            )
