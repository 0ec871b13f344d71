"""TLS towards ZooKeeper: the certificate that is shown, and by what the servers are checked."""

from typing import TYPE_CHECKING

from tailrace.core.metadata.zookeeper_config import ZookeeperSecurityConfig

if TYPE_CHECKING:
    import ssl


def zookeeper_context(config: ZookeeperSecurityConfig) -> "ssl.SSLContext | None":
    """Return what a connection shakes hands with, of the files as they are now; None: no TLS.

    Only what the trust store names is trusted. Blocks, 50 ms with PKCS12. Errors: InvalidKeys.
    """
    stores = config.tls()
    if stores is None:
        return None
    # 20 ms that none without TLS need spend
    from tailrace.core.security.keys import InvalidKeys
    from tailrace.core.security.tls_client import client_context

    try:
        return client_context(stores, "https" if config.identification else "")
    except InvalidKeys as error:
        raise InvalidKeys(f"ZooKeeper: zookeeper.{error}") from error
