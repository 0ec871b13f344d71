"""The HTTP port of a process, by BookKeeper's settings: with TLS or without."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tailrace.core.runtime.config import ConfigError, Secret, setting
from tailrace.core.runtime.http import Asked, Handler, HttpServer
from tailrace.core.security.tls_config import StoreType, TlsConfig

_PKCS12: Final = (".p12", ".pfx")


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpTlsConfig:
    """TLS of an HTTP port, by BookKeeper's names."""

    enabled: bool = setting("httpServerTlsEnable", False, "Speak HTTPS on the HTTP port.")
    key_store: Path | None = setting(
        "httpServerKeyStorePath",
        None,
        "File with the private key and the certificate chain: PEM, or PKCS12 where its name ends "
        "with .p12 or .pfx. It is read again when it changes.",
    )
    key_store_password: Secret = setting(
        "httpServerKeyStorePassword", Secret(""), "Password of the key store."
    )
    trust_store: Path | None = setting(
        "httpServerTrustStorePath",
        None,
        "File with authorities; with one, clients need certificates that they have signed.",
    )
    trust_store_password: Secret = setting(
        "httpServerTrustStorePassword", Secret(""), "Password of the trust store."
    )

    def __post_init__(self) -> None:
        if self.enabled and self.key_store is None:
            raise ConfigError("httpServerTlsEnable: set httpServerKeyStorePath")
        if self.trust_store is not None and not self.enabled:
            raise ConfigError("httpServerTrustStorePath: set httpServerTlsEnable")

    @property
    def needs_certificates(self) -> bool:
        """Whether clients have to show certificates."""
        return self.enabled and self.trust_store is not None

    @property
    def tls(self) -> TlsConfig:
        """The same as every server here has it."""
        password, kind = self.key_store_password, _kind(self.key_store)
        return TlsConfig(
            keystore_location=self.key_store,
            keystore_type=kind,
            keystore_password=password if kind == "PKCS12" else Secret(""),
            key_password=password if kind == "PEM" else Secret(""),
            truststore_location=self.trust_store,
            truststore_type=_kind(self.trust_store),
            truststore_password=self.trust_store_password,
            client_auth="none" if self.trust_store is None else "required",
        )


def _kind(store: Path | None) -> StoreType:
    return "PKCS12" if store is not None and store.suffix.lower() in _PKCS12 else "PEM"


def http_server(
    host: str,
    port: int,
    routes: Mapping[tuple[str, str], Handler | Asked],
    tls: HttpTlsConfig,
) -> HttpServer:
    """Return a server with TLS if it is wanted. Errors: InvalidKeys."""
    if tls.enabled:
        from tailrace.core.security.https import HttpsServer  # 60 ms, for those who need it

        return HttpsServer(host, port, routes, tls.tls)
    return HttpServer(host, port, routes)
