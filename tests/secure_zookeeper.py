"""ZooKeepers for tests that know their clients: by password (SASL), by certificate (TLS)."""

import asyncio
from pathlib import Path
from typing import Final

from tailrace.core.errors import NoNode
from tailrace.core.metadata.zookeeper import ZookeeperStore
from tailrace.core.metadata.zookeeper_acls import Grant, ZookeeperAccess
from tailrace.core.metadata.zookeeper_config import ZookeeperSecurityConfig
from tailrace.core.runtime.config import Secret
from tailrace.core.runtime.tasks import together
from tests.certificates import Authority
from tests.ports import free_port
from tests.zookeeper import ZooKeeperServer

USERS: Final = {"super": "of-all", "tailrace": "s3cret, of course", "other": "another"}
_SASL: Final = """\
authProvider.sasl=org.apache.zookeeper.server.auth.SASLAuthenticationProvider
"""
_TLS: Final = """\
secureClientPort={port}
secureClientPortAddress=127.0.0.1
serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory
authProvider.x509=org.apache.zookeeper.server.auth.X509AuthenticationProvider
ssl.keyStore.location={key}
ssl.keyStore.password=zookeeper
ssl.trustStore.location={trust}
ssl.enabledProtocols=TLSv1.2,TLSv1.3
ssl.clientAuth=want
"""


class SaslZooKeeper(ZooKeeperServer):
    """One that authenticates `USERS` by SASL DIGEST-MD5; others come in without an identity."""

    def __init__(self, data: Path, settings: str = "") -> None:
        super().__init__(data, settings=_SASL + settings)
        self._jaas = data / "server.jaas"
        self._java_options = (f"-Djava.security.auth.login.config={self._jaas}",)
        self.set_users(USERS)

    def set_users(self, users: dict[str, str]) -> None:
        """Say who is known after the next start."""
        self._jaas.parent.mkdir(parents=True, exist_ok=True)
        self._jaas.write_text(jaas("Server", {f"user_{name}": users[name] for name in users}))


class TlsZooKeeper(ZooKeeperServer):
    """One that shows a certificate for 127.0.0.1, and takes a client's name from its own."""

    _jars = "bookkeeper"
    """They have Netty, which a ZooKeeper needs for TLS."""

    def __init__(self, data: Path, authority: Authority) -> None:
        self.secure_port = free_port()
        key = authority.pkcs12("zookeeper", "zookeeper", "127.0.0.1")
        settings = _TLS.format(port=self.secure_port, key=key, trust=authority.certificate)
        super().__init__(data, settings=settings)

    @property
    def secure_hosts(self) -> str:
        """Where clients connect that speak TLS."""
        return f"127.0.0.1:{self.secure_port}"


def jaas(section: str, options: dict[str, str]) -> str:
    """Return a JAAS file for a server or a client of ZooKeeper."""
    lines = "".join(f'\n    {name}="{text}"' for name, text in options.items())
    module = "org.apache.zookeeper.server.auth.DigestLoginModule"
    return f"{section} {{\n    {module} required{lines};\n}};\n"


def access(
    user: str = "tailrace", readable: str = "", *, password: str = "", **settings: object
) -> ZookeeperAccess:
    """Return how a user of a `SaslZooKeeper` comes to it, whose nodes are its own."""
    secret = Secret(password or USERS[user])
    config = ZookeeperSecurityConfig(
        **{"auth_username": user, "auth_password": secret, "set_acl": True, **settings}  # type: ignore[arg-type]
    )
    return ZookeeperAccess(config, readable)


def settings_file(path: Path, *, user: str = "tailrace", set_acl: bool = True) -> Path:
    """Write settings of processes and commands that come as a user of a `SaslZooKeeper`."""
    path.write_text(
        f'zookeeper.auth.username = "{user}"\n'
        f'zookeeper.auth.password = "{USERS[user]}"\n'
        f"zookeeper.set.acl = {str(set_acl).lower()}\n"
    )
    return path


def acls_below(hosts: str, root: str, how: ZookeeperAccess) -> dict[str, frozenset[Grant]]:
    """Return whose every node is, from a root down."""

    async def one(store: ZookeeperStore, path: str) -> tuple[frozenset[Grant], list[str]] | None:
        try:
            return frozenset(await store.get_acl(path)), await store.children(path)
        except NoNode:
            return None

    async def walk() -> dict[str, frozenset[Grant]]:
        store = await ZookeeperStore.connect(hosts, access=how)
        found, waiting = {}, [root]
        while waiting:
            step, waiting = waiting[-200:], waiting[:-200]
            for path, seen in zip(step, await together([one(store, p) for p in step]), strict=True):
                if seen is not None:
                    found[path] = seen[0]
                    waiting += [f"{path}/{name}" for name in seen[1]]
        await store.close()
        return found

    return asyncio.run(walk())
