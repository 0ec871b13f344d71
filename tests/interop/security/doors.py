"""One broker with every door, and what a client brings to each of them: always the same user."""

import base64
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.kafka.apis import CREATE_DELEGATION_TOKEN
from tailrace.protocol.kafka.messages.create_delegation_token import CreateDelegationTokenRequest
from tests.certificates import Authority
from tests.cluster.sasl_client import LogIn, logged_in
from tests.ports import free_port
from tests.process import TailraceProcess
from tests.unit.core.access.oauth.issuer import jwk_of, key_set, token

WITHIN_S: Final = 30
USER: Final = "alice"
PASSWORD: Final = "the password of alice"
WRONG: Final = "not the password of alice, but like it"
TOKENS_SECRET: Final = "the secret of the tokens"
STORE_PASSWORD: Final = "the password of key stores"
MAY: Final = f"{USER}-"
"""What the names of all topics and groups begin with that the user may use."""
DENIED: Final = "secret"
"""A topic that is there, and not for the user; a group likewise."""
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
TLS_DOORS: Final = ("mTLS", *MECHANISMS)
"""Over TLS: by a certificate, or SASL_SSL."""
TOKEN: Final = "token"
"""A delegation token over SASL_SSL, for clients that know of those."""
LOGIN: Final = {
    "PLAIN": "plain.PlainLoginModule",
    "SCRAM-SHA-256": "scram.ScramLoginModule",
    "SCRAM-SHA-512": "scram.ScramLoginModule",
}
BEARER: Final = "oauthbearer.OAuthBearerLogin"
JAVA_PACKAGE: Final = "org.apache.kafka.common.security"


@dataclass(frozen=True, slots=True)
class Door:
    """Where a client goes in and by what, and what it does there: it writes, and reads in a group.

    As JSON it is a line of what the programs of Go and Node are given.
    """

    name: str
    bootstrap: str
    ca: str
    """Empty: no TLS."""
    mechanism: str = ""
    """Empty: by certificate."""
    user: str = ""
    password: str = ""
    by_token: bool = False
    """The user and the password are a delegation token's."""
    jwt: str = ""
    jwt_file: str = ""
    store: str = ""
    """Certificate and key in PEM; beside it lies the same in PKCS12."""
    topic: str = ""
    group: str = ""

    def to(self, topic: str, group: str = "") -> "Door":
        """Return it with what it is used for."""
        return replace(self, topic=topic, group=group or topic)

    def called(self, name: str) -> "Door":
        """Return it by another name."""
        return replace(self, name=name)

    @property
    def protocol(self) -> str:
        """The name of Kafka."""
        if not self.mechanism:
            return "SSL"
        return "SASL_SSL" if self.ca else "SASL_PLAINTEXT"

    def json(self) -> dict[str, Any]:
        """Return what other languages are given."""
        return asdict(self)

    def java(self) -> dict[str, str]:
        """Return settings for Kafka's own clients."""
        trust = {"ssl.truststore.type": "PEM", "ssl.truststore.location": self.ca}
        settings = {"security.protocol": self.protocol, **(trust if self.ca else {})}
        if self.store:
            return {
                **settings,  # Java reads keys in PEM only as PKCS8
                "ssl.keystore.type": "PKCS12",
                "ssl.keystore.location": str(Path(self.store).with_suffix(".p12")),
                "ssl.keystore.password": STORE_PASSWORD,
            }
        settings["sasl.mechanism"] = self.mechanism
        if self.jwt:
            return {
                **settings,
                "sasl.jaas.config": f"{JAVA_PACKAGE}.{BEARER}Module required;",
                "sasl.login.callback.handler.class": f"{JAVA_PACKAGE}.{BEARER}CallbackHandler",
                "sasl.oauthbearer.token.endpoint.url": Path(self.jwt_file).as_uri(),
            }
        more = ' tokenauth="true"' if self.by_token else ""
        settings["sasl.jaas.config"] = (
            f"{JAVA_PACKAGE}.{LOGIN[self.mechanism]} required "
            f'username="{self.user}" password="{self.password}"{more};'
        )
        return settings

    def librdkafka(self) -> dict[str, Any]:
        """Return settings for confluent-kafka."""
        settings: dict[str, Any] = {
            "bootstrap.servers": self.bootstrap,
            "security.protocol": self.protocol,
            "metadata.recovery.strategy": "none",
            "log_level": 0,
            **({"ssl.ca.location": self.ca} if self.ca else {}),
        }
        if self.store:
            own = {"ssl.certificate.location": self.store, "ssl.key.location": self.store}
            return settings | own
        settings["sasl.mechanism"] = self.mechanism
        if self.jwt:
            return settings | {"oauth_cb": lambda _: (self.jwt, time.time() + 600)}
        return settings | {"sasl.username": self.user, "sasl.password": self.password}


class SecuredBroker:
    """Listeners SSL (by certificate), SASL_SSL and SASL_PLAINTEXT; one user, and an admin."""

    def __init__(self, folder: Path) -> None:
        self.authority = Authority(folder / "keys")
        self.admin_store, self.user_store = (
            self.authority.pkcs12(name, STORE_PASSWORD).with_suffix(".pem")
            for name in ("admin", USER)
        )
        self._made: list[str] = []
        """HMACs of tokens."""
        now_s = int(time.time())
        self.jwt = token("RS256", {"sub": USER, "aud": "kafka", "iat": now_s, "exp": now_s + 3600})
        self.jwt_file = folder / "token.jwt"
        self.jwt_file.write_text(self.jwt)
        keys = folder / "keys.json"
        keys.write_bytes(key_set(jwk_of("RS256")))
        self.process = TailraceProcess(folder / "data", *self._settings(keys))
        self.ssl, self.sasl_ssl, self.sasl_plaintext = (
            f"127.0.0.1:{free_port()}" for _ in range(3)
        )

    def start(self) -> None:
        """Start it; make the user, and what it may do."""
        self.process.start(
            f"SASL_PLAINTEXT://{self.sasl_plaintext},SASL_SSL://{self.sasl_ssl},SSL://{self.ssl}"
        )
        admin = AdminClient(self.admin().librdkafka())
        for kind in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
            made = UserScramCredentialUpsertion(
                USER, ScramCredentialInfo(kind, 4096), PASSWORD.encode()
            )
            admin.alter_user_scram_credentials([made])[USER].result(WITHIN_S)
        allowed = admin.create_acls([
            _acl(ResourceType.TOPIC, AclOperation.READ),
            _acl(ResourceType.TOPIC, AclOperation.WRITE),
            _acl(ResourceType.TOPIC, AclOperation.CREATE),
            _acl(ResourceType.GROUP, AclOperation.READ),
        ])  # fmt: skip
        topics = admin.create_topics([NewTopic(DENIED, 1)])
        for each in (*allowed.values(), *topics.values()):
            each.result(WITHIN_S)

    def admin(self) -> Door:
        """Return the way in of one that may do everything."""
        return replace(self.door("mTLS"), store=str(self.admin_store))

    def door(self, name: str, *, tls: bool = True) -> Door:
        """Return the user's way in by a certificate, or by a mechanism."""
        if name == "mTLS":
            return Door(name, self.ssl, self._ca, store=str(self.user_store))
        at, ca = (self.sasl_ssl, self._ca) if tls else (self.sasl_plaintext, "")
        if name == "OAUTHBEARER":
            return Door(name, at, ca, name, jwt=self.jwt, jwt_file=str(self.jwt_file))
        return Door(name, at, ca, name, USER, PASSWORD)

    def secrets(self) -> list[str]:
        """Return what nobody may read in a log: all that any client has brought."""
        signature = self.jwt.rpartition(".")[2]
        return [PASSWORD, WRONG, TOKENS_SECRET, signature, *self._made]

    def token(self) -> Door:
        """Return the user's way in by a delegation token, a new one."""
        with logged_in(self.process, LogIn(USER, PASSWORD)) as known:
            answer = known.client.ask(CREATE_DELEGATION_TOKEN, 3, CreateDelegationTokenRequest())
        assert answer.error_code == ErrorCode.NONE
        password = base64.b64encode(bytes(answer.hmac)).decode()
        self._made.append(password)
        at = self.sasl_ssl, self._ca
        return Door(TOKEN, *at, "SCRAM-SHA-256", answer.token_id, password, by_token=True)

    def wrong(self, mechanism: str = "SCRAM-SHA-512") -> Door:
        """Return a way in by a password that is not the user's."""
        return replace(self.door(mechanism), name="wrong password", password=WRONG)

    @property
    def _ca(self) -> str:
        return str(self.authority.certificate)

    def _settings(self, keys: Path) -> list[str]:
        store = self.authority.store("broker", "127.0.0.1", "localhost")
        given = {
            "ssl.keystore.location": str(store),
            "ssl.truststore.location": self._ca,
            "listener.name.ssl.ssl.client.auth": "required",
            "ssl.principal.mapping.rules": r"RULE:^CN=([a-z]+)(,.*)?$/$1/",
            "security.inter.broker.protocol": "SASL_SSL",
            "sasl.enabled.mechanisms": ",".join(MECHANISMS),
            "sasl.oauthbearer.jwks.endpoint.url": keys.as_uri(),
            "sasl.oauthbearer.expected.audience": "kafka",
            "delegation.token.secret.key": TOKENS_SECRET,
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:admin",
        }
        return [part for each in given.items() for part in ("--set", "=".join(each))]


def _acl(kind: ResourceType, operation: AclOperation) -> AclBinding:
    prefixed, allow = ResourcePatternType.PREFIXED, AclPermissionType.ALLOW
    return AclBinding(kind, MAY, prefixed, f"User:{USER}", "*", operation, allow)
