"""TLS towards ZooKeeper: the certificate that is shown, and by what the servers are checked."""

import os
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tailrace.core.metadata.zookeeper_config import ZookeeperSecurityConfig

if TYPE_CHECKING:
    from tailrace.core.security.tls_config import TlsConfig


def zookeeper_context(config: ZookeeperSecurityConfig) -> ssl.SSLContext | None:
    """Return what a connection shakes hands with, of the files as they are now; None: no TLS.

    Only what the trust store names is trusted. Blocks, 50 ms with PKCS12. Errors: InvalidKeys.
    """
    stores = config.tls()
    if stores is None:
        return None
    from tailrace.core.security.keys import InvalidKeys  # 20 ms that none without TLS need spend

    try:
        return _context(stores, is_named=bool(config.identification))
    except InvalidKeys as error:
        raise InvalidKeys(f"ZooKeeper: zookeeper.{error}") from error


def _context(stores: "TlsConfig", *, is_named: bool) -> ssl.SSLContext:
    from tailrace.core.security.keys import InvalidKeys, read_key_pair, read_trusted

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = is_named
    context.options |= ssl.OP_NO_RENEGOTIATION
    versions = [ssl.TLSVersion[each.replace(".", "_")] for each in stores.enabled_protocols]
    context.minimum_version, context.maximum_version = min(versions), max(versions)
    try:
        context.load_verify_locations(cadata=read_trusted(stores))
        if stores.has_key:
            pair = read_key_pair(stores)
            with _in_memory(pair.key) as key, _in_memory(pair.chain) as chain:
                context.load_cert_chain(chain, key)
    except ssl.SSLError as error:
        why = error.reason or str(error)
        raise InvalidKeys(f"ssl.keystore: the certificate cannot be used: {why}") from error
    return context


@contextmanager
def _in_memory(data: bytes) -> Iterator[str]:
    """Give a path to bytes that lie on no disk: Python's TLS takes keys from files alone."""
    descriptor = os.memfd_create("tls", os.MFD_CLOEXEC)
    try:
        with open(descriptor, "wb", closefd=False) as file:
            file.write(data)
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)
