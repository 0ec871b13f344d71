"""Settings of how ZooKeeper is spoken to, and what is let of its nodes to others.

Names are Kafka's (3.x, KafkaConfig `zookeeper.*`) where it has them.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, TypeAlias

from tailrace.core.runtime.config import Secret, setting
from tailrace.core.security.tls_config import EVERY_VERSION, StoreType, TlsStores, TlsVersion

AuthScheme: TypeAlias = Literal["sasl", "digest"]
Identification: TypeAlias = Literal["HTTPS", "https", ""]

ACL_USERS_MAX: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class ZookeeperSecurityConfig:
    """Who this process is to ZooKeeper, how it is sure of the servers, and whose its nodes are."""

    auth_scheme: AuthScheme = setting(
        "zookeeper.auth.scheme",
        "sasl",
        "How user and password are shown: sasl (SASL DIGEST-MD5, as Java's clients do with a JAAS "
        "file) or digest (the password itself goes over the connection: use TLS).",
    )
    auth_username: str = setting(
        "zookeeper.auth.username", "", "The user of this process in ZooKeeper; empty: none."
    )
    auth_password: Secret = setting(
        "zookeeper.auth.password", Secret(""), "Its password. Give it in a file or the environment."
    )
    set_acl: bool = setting(
        "zookeeper.set.acl",
        False,
        "Whether the nodes that this process makes are its own: only its identity (user, or the "
        "name in its certificate) changes them, and reads what is no log's. Else anybody may.",
    )
    acl_users: str = setting(
        "zookeeper.acl.users",
        "",
        "Others that may do everything with these nodes, SCHEME:ID joined by semicolons: "
        "sasl:admin;x509:CN=bookie,O=Example. Needed where processes have certificates of "
        "different names.",
    )
    ssl_enable: bool = setting(
        "zookeeper.ssl.client.enable",
        False,
        "Whether to speak TLS. The servers' secureClientPort is for that.",
    )
    keystore_location: Path | None = setting(
        "zookeeper.ssl.keystore.location",
        None,
        "File with the private key and the certificate that this process shows; none: it shows "
        "none. Read again for every connection, as the trust store.",
    )
    keystore_type: StoreType = setting(
        "zookeeper.ssl.keystore.type", "PEM", "Its format: PEM or PKCS12."
    )
    keystore_password: Secret = setting(
        "zookeeper.ssl.keystore.password",
        Secret(""),
        "Password of a PKCS12 file, or of an encrypted private key in PEM.",
    )
    truststore_location: Path | None = setting(
        "zookeeper.ssl.truststore.location",
        None,
        "File with the certificates of the authorities by which the servers are checked.",
    )
    truststore_type: StoreType = setting(
        "zookeeper.ssl.truststore.type", "PEM", "Its format: PEM or PKCS12."
    )
    truststore_password: Secret = setting(
        "zookeeper.ssl.truststore.password", Secret(""), "Password of a PKCS12 trust store."
    )
    enabled_protocols: tuple[TlsVersion, ...] = setting(
        "zookeeper.ssl.enabled.protocols", EVERY_VERSION, "Versions of TLS that are spoken."
    )
    identification: Identification = setting(
        "zookeeper.ssl.endpoint.identification.algorithm",
        "HTTPS",
        "HTTPS: a server's certificate must have the name that it was connected to by; empty: any "
        "certificate of the trusted authorities will do.",
    )

    def __post_init__(self) -> None:
        if bool(self.auth_username) != bool(self.auth_password):
            raise ValueError(
                "zookeeper.auth.username and zookeeper.auth.password belong together; set both"
            )
        if self.auth_scheme == "digest" and ":" in self.auth_username:
            raise ValueError("zookeeper.auth.username: a colon ends it in the digest scheme")
        if self.ssl_enable and self.truststore_location is None:
            raise ValueError(
                "zookeeper.ssl.client.enable: set zookeeper.ssl.truststore.location, by which the "
                "servers are checked"
            )
        if not self.ssl_enable and (self.keystore_location or self.truststore_location):
            raise ValueError(
                "zookeeper.ssl.keystore and zookeeper.ssl.truststore do nothing without "
                "zookeeper.ssl.client.enable=true"
            )
        if self.set_acl and not self.has_identity:
            raise ValueError(
                "zookeeper.set.acl: nodes can belong to no one: set zookeeper.auth.username, or "
                "zookeeper.ssl.keystore.location"
            )
        if not self.enabled_protocols:
            raise ValueError("zookeeper.ssl.enabled.protocols: at least one is needed")
        parse_users(self.acl_users)

    @property
    def has_identity(self) -> bool:
        """Whether ZooKeeper can tell this process from others."""
        return bool(self.auth_username) or self.keystore_location is not None

    @property
    def identity(self) -> str:
        """Who this process is to ZooKeeper, for messages."""
        named = f"user {self.auth_username!r} ({self.auth_scheme})" if self.auth_username else ""
        shown = f"the certificate in {self.keystore_location}" if self.keystore_location else ""
        return " and ".join(filter(None, (named, shown))) or "a client without credentials"

    def tls(self) -> TlsStores | None:
        """Return the stores as every TLS of ours takes them; None: no TLS."""
        if not self.ssl_enable:
            return None
        return TlsStores(
            keystore_type=self.keystore_type,
            keystore_location=self.keystore_location,
            keystore_password=self.keystore_password,
            key_password=self.keystore_password if self.keystore_type == "PEM" else Secret(""),
            truststore_type=self.truststore_type,
            truststore_location=self.truststore_location,
            truststore_password=self.truststore_password,
            enabled_protocols=self.enabled_protocols,
        )


def parse_users(text: str) -> tuple[tuple[str, str], ...]:
    """Return (scheme, id) of each of `zookeeper.acl.users`. Errors: ValueError.

    A semicolon in a certificate's name has a backslash before it, as in ZooKeeper's own ids.
    """
    users = []
    parts = text.replace("\\;", "\0").split(";")
    for each in filter(None, (part.replace("\0", "\\;").strip() for part in parts)):
        scheme, _, name = each.partition(":")
        if scheme not in ("sasl", "digest", "x509") or not name:
            raise ValueError(
                f"zookeeper.acl.users: {each!r} is not sasl:NAME, digest:NAME:HASH or x509:NAME"
            )
        users.append((scheme, name))
    if len(users) > ACL_USERS_MAX:
        raise ValueError(f"zookeeper.acl.users: more than {ACL_USERS_MAX}")
    return tuple(users)
