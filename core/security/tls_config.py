"""Settings of TLS, under Kafka's names (SslConfigs)."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, TypeAlias

from typing_extensions import override

from tailrace.core.runtime.config import Secret, setting
from tailrace.core.security.cipher_suites import CipherSuites, cipher_suites

StoreType: TypeAlias = Literal["PEM", "PKCS12"]
ClientAuth: TypeAlias = Literal["none", "requested", "required"]
TlsVersion: TypeAlias = Literal["TLSv1.2", "TLSv1.3"]
Identification: TypeAlias = Literal["https", ""]

EVERY_VERSION: Final[tuple[TlsVersion, ...]] = ("TLSv1.2", "TLSv1.3")


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsStores:
    """The certificate that a process shows, and those that it trusts; servers and clients alike."""

    keystore_type: StoreType = setting(
        "ssl.keystore.type",
        "PEM",
        "Format of the key store: PEM or PKCS12. Kafka's default is JKS, which is not read: "
        "keytool -importkeystore -deststoretype PKCS12 converts it.",
    )
    keystore_location: Path | None = setting(
        "ssl.keystore.location",
        None,
        "File with the private key and the certificate chain, the own certificate first. It is "
        "read again when it changes.",
    )
    keystore_password: Secret = setting(
        "ssl.keystore.password", Secret(""), "Password of a PKCS12 key store."
    )
    keystore_key: Secret = setting(
        "ssl.keystore.key", Secret(""), "The private key itself, in PEM, instead of a file."
    )
    keystore_certificate_chain: str = setting(
        "ssl.keystore.certificate.chain",
        "",
        "The certificate chain itself, in PEM, with ssl.keystore.key.",
    )
    key_password: Secret = setting(
        "ssl.key.password", Secret(""), "Password of an encrypted private key in PEM."
    )
    truststore_type: StoreType = setting(
        "ssl.truststore.type", "PEM", "Format of the trust store: PEM or PKCS12."
    )
    truststore_location: Path | None = setting(
        "ssl.truststore.location",
        None,
        "File with the certificates of the authorities that certificates of peers are checked by. "
        "It is read again when it changes. Clients without one trust the system's authorities.",
    )
    truststore_password: Secret = setting(
        "ssl.truststore.password", Secret(""), "Password of a PKCS12 trust store."
    )
    truststore_certificates: str = setting(
        "ssl.truststore.certificates",
        "",
        "Certificates of authorities themselves, in PEM, instead of a file.",
    )
    enabled_protocols: tuple[TlsVersion, ...] = setting(
        "ssl.enabled.protocols", EVERY_VERSION, "Versions of TLS that are spoken."
    )
    cipher_suites: tuple[str, ...] = setting(
        "ssl.cipher.suites",
        (),
        "Cipher suites that may be agreed on, by the names of Java or OpenSSL; empty: OpenSSL's "
        "own choice. Of TLS 1.3 all suites or none.",
    )

    def __post_init__(self) -> None:
        _ = self.allowed_suites
        for name, location, text in (
            ("ssl.keystore.location", self.keystore_location, self.keystore_key),
            ("ssl.truststore.location", self.truststore_location, self.truststore_certificates),
        ):
            if location is not None and text:
                raise ValueError(f"{name}: the file and the text are both set; set one")
        if bool(self.keystore_key) != bool(self.keystore_certificate_chain):
            raise ValueError(
                "ssl.keystore.key and ssl.keystore.certificate.chain belong together; set both"
            )
        if not self.enabled_protocols:
            raise ValueError("ssl.enabled.protocols: at least one is needed")

    @property
    def has_key(self) -> bool:
        """Whether there is a certificate to show."""
        return self.keystore_location is not None or bool(self.keystore_key)

    @property
    def has_trust(self) -> bool:
        """Whether authorities are named."""
        return self.truststore_location is not None or bool(self.truststore_certificates)

    @property
    def allowed_suites(self) -> CipherSuites | None:
        """The suites that may be agreed on; None: all. Errors: ValueError."""
        if not self.cipher_suites:
            return None
        suites = cipher_suites(self.cipher_suites)
        spoken = [
            version
            for version, is_there in (("TLSv1.2", suites.openssl), ("TLSv1.3", suites.with_1_3))
            if is_there and version in self.enabled_protocols
        ]
        if not spoken:
            raise ValueError(
                "ssl.cipher.suites: no suite is of a version that ssl.enabled.protocols has"
            )
        return suites

    @property
    def files(self) -> tuple[Path, ...]:
        """The files that are read again when they change."""
        found = (self.keystore_location, self.truststore_location)
        return tuple(each for each in found if each is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsConfig(TlsStores):
    """The TLS side of a server."""

    client_auth: ClientAuth = setting(
        "ssl.client.auth",
        "none",
        "Certificates of clients: none asked for, requested or required.",
    )

    @override
    def __post_init__(self) -> None:
        TlsStores.__post_init__(self)  # super() does not know a class that slots made again
        if self.client_auth != "none" and not self.has_trust:
            raise ValueError(
                f"ssl.client.auth is {self.client_auth}: set ssl.truststore.location, by which "
                "certificates of clients are checked"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsClientConfig(TlsStores):
    """The TLS side of a client."""

    endpoint_identification: Identification = setting(
        "ssl.endpoint.identification.algorithm",
        "https",
        "https: the name or address by which a server is reached must be in its certificate; "
        "empty: any certificate of a trusted authority will do.",
    )
