"""Authentication by kazoo: part of `zookeeper_link`, and of no use elsewhere.

kazoo says that it is connected before it has authenticated; takes a server that goes away during
SASL for one that refuses the credentials; and goes on for ever with one that has no SASL. All three
are set right here.
"""

import secrets
from collections.abc import Callable, Sequence
from typing import Any, Final

from kazoo import exceptions as kazoo_errors
from kazoo.protocol.serialization import SASL
from kazoo.security import ACL, Id

from tailrace.core.metadata.zookeeper_acls import Grant
from tailrace.core.metadata.zookeeper_config import ZookeeperSecurityConfig
from tailrace.core.security.digest_md5 import DigestClient, DigestFailed, Service

SERVERS: Final = Service("zookeeper", "zk-sasl-md5")
"""Every server: no name of a host is part of it, in Java neither."""
SASL_ROUNDS_MAX: Final = 2
"""Of DIGEST-MD5: nothing, for a challenge; the response to it, for the server's own proof."""

LOST_IN_SASL_MAX: Final = 2
"""How often in a row a server may go away during SASL before that counts as a refusal."""


def credentials(config: ZookeeperSecurityConfig) -> dict[str, Any]:
    """Return kazoo's own options for a user and its password."""
    if not config.auth_username:
        return {}
    password = config.auth_password.reveal()
    if config.auth_scheme == "digest":
        return {"auth_data": [("digest", f"{config.auth_username}:{password}")]}
    return {"sasl_options": {"username": config.auth_username, "password": password}}


def authenticate(connection: Any, timeout_s: float) -> None:
    """Take the place of kazoo's SASL exchange, on its thread.

    Errors: AuthFailedError: refused, or the server is not the one that knows the password; kazoo's
    for a connection that is lost. Source: ZooKeeper ZooKeeperSaslClient, SecurityUtils.
    """
    login = connection.sasl_options
    exchange = DigestClient(SERVERS, login["username"], login["password"], secrets.token_hex(16))
    token = b""
    for xid in range(1, SASL_ROUNDS_MAX + 1):
        connection._submit(SASL(token), timeout_s, xid)
        header, buffer, offset = connection._read_header(timeout_s)
        if header.xid != xid or header.err:
            raise kazoo_errors.AuthFailedError(f"SASL was refused (error {header.err})")
        challenge, _ = SASL.deserialize(buffer, offset)
        if not challenge:
            raise kazoo_errors.AuthFailedError("this server has no SASL: see its authProvider")
        try:
            response = exchange.respond(challenge)
        except DigestFailed as error:
            raise kazoo_errors.AuthFailedError(f"SASL failed: {error}") from error
        if response is None:
            return
        token = response
    raise kazoo_errors.AuthFailedError(f"SASL was not over after {SASL_ROUNDS_MAX} rounds")


def kazoo_acl(grants: Sequence[Grant]) -> list[ACL]:
    """Return an ACL as kazoo sends it."""
    return [ACL(each.permissions, Id(each.scheme, each.name)) for each in grants]


def grants_of(acl: Sequence[ACL]) -> tuple[Grant, ...]:
    """Return an ACL that kazoo has read."""
    return tuple(Grant(each.perms, each.id.scheme, each.id.id) for each in acl)


class Connecting:
    """Takes the place of kazoo's `_connect`: connection, session and authentication in one."""

    def __init__(self, connection: Any, on_ready: Callable[[], None]) -> None:
        """`on_ready` is called by kazoo's thread once a session is there and authenticated."""
        self.trouble = ""
        """Why the last attempt failed; empty after one that did not."""
        self._connect = connection._connect
        self._connection = connection
        self._on_ready = on_ready
        self._lost_in_sasl = 0
        connection._connect = self._connect_all
        connection._authenticate_with_sasl = self._authenticate

    def _connect_all(self, host: str, address: str, port: int) -> Any:
        try:
            limits = self._connect(host, address, port)
        except Exception as error:
            self.trouble = f"{host}:{port}: {str(error) or type(error).__name__}"
            raise
        self.trouble = ""
        self._on_ready()
        return limits

    def _authenticate(self, _host: str, timeout_s: float) -> None:
        try:
            authenticate(self._connection, timeout_s)
        except kazoo_errors.ConnectionDropped as error:  # by older servers, also to refuse
            self._lost_in_sasl += 1
            if self._lost_in_sasl > LOST_IN_SASL_MAX:
                raise kazoo_errors.AuthFailedError("it ends the connection during SASL") from error
            raise
        self._lost_in_sasl = 0
