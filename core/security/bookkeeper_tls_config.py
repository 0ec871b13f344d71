"""Settings of TLS between bookies and their clients, under BookKeeper's names."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, TypeAlias

from tailrace.core.runtime.config import NotNegative, setting
from tailrace.core.security.tls_config import EVERY_VERSION, TlsVersion

StoreType: TypeAlias = Literal["PEM", "PKCS12", "JKS"]

FACTORY: Final = "org.apache.bookkeeper.tls.TLSContextFactory"


@dataclass(frozen=True, slots=True, kw_only=True)
class BookKeeperTlsConfig:
    """The certificate that a bookie or its client shows, and those that it trusts."""

    factory: str = setting(
        "tlsProviderFactoryClass",
        "",
        f"{FACTORY}: TLS between bookies and their clients, begun by START_TLS. Empty: none.",
    )
    provider: str = setting(
        "tlsProvider",
        "OpenSSL",
        "Has no effect: it chooses between Java's libraries. TLS is OpenSSL's here.",
    )
    client_authentication: bool = setting(
        "tlsClientAuthentication",
        False,
        "A bookie asks its clients for certificates and refuses those without a trusted one; a "
        "client shows its own.",
    )
    keystore_type: StoreType = setting(
        "tlsKeyStoreType", "PEM", "Format of the key store: PEM or PKCS12. Java's default is JKS."
    )
    keystore: Path | None = setting(
        "tlsKeyStore",
        None,
        "File with the private key. PEM: the certificates may be in the same file.",
    )
    keystore_password_path: Path | None = setting(
        "tlsKeyStorePasswordPath", None, "File with the password of the key store, or of its key."
    )
    certificate_path: Path | None = setting(
        "tlsCertificatePath",
        None,
        "With PEM: file with the certificate chain, the own certificate first. Default: "
        "tlsKeyStore.",
    )
    truststore_type: StoreType = setting(
        "tlsTrustStoreType", "PEM", "Format of the trust store: PEM or PKCS12."
    )
    truststore: Path | None = setting(
        "tlsTrustStore",
        None,
        "File with the certificates of the authorities by which certificates of the other side are "
        "checked.",
    )
    truststore_password_path: Path | None = setting(
        "tlsTrustStorePasswordPath", None, "File with the password of a PKCS12 trust store."
    )
    hostname_verification: bool = setting(
        "tlsHostnameVerificationEnabled",
        True,
        "A client checks that a bookie's certificate is for the host that it is registered with. "
        "Java's default is false: then every certificate of the authority passes for a bookie's.",
    )
    enabled_protocols: tuple[TlsVersion, ...] = setting(
        "tlsEnabledProtocols", EVERY_VERSION, "Versions of TLS that are spoken."
    )
    refresh_s: NotNegative = setting(
        "tlsCertFilesRefreshDurationSeconds",
        60,
        "Distance of checks, at new connections, whether the files have changed. 0: they are read "
        "once, which is Java's default. Unit: s.",
    )

    def __post_init__(self) -> None:
        if self.factory not in ("", FACTORY):
            raise ValueError(f"tlsProviderFactoryClass: {FACTORY} or nothing")
        for name, kind in (
            ("tlsKeyStoreType", self.keystore_type),
            ("tlsTrustStoreType", self.truststore_type),
        ):
            if kind == "JKS":
                raise ValueError(
                    f"{name}: JKS is not read; keytool -importkeystore -srckeystore OLD "
                    "-destkeystore NEW -deststoretype PKCS12 converts it"
                )
        if not self.enabled_protocols:
            raise ValueError("tlsEnabledProtocols: at least one is needed")

    @property
    def is_enabled(self) -> bool:
        """Whether TLS is spoken."""
        return bool(self.factory)

    @property
    def files(self) -> tuple[Path, ...]:
        """The files whose change is noticed."""
        found = (
            self.keystore,
            self.keystore_password_path,
            self.certificate_path,
            self.truststore,
            self.truststore_password_path,
        )
        return tuple(each for each in found if each is not None)
