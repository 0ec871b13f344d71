"""What contexts of servers and clients have in common: versions, own certificate, authorities."""

import os
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from cryptography import x509

from tailrace.core.security.cipher_suites import SETTING as SUITES_SETTING
from tailrace.core.security.keys import InvalidKeys, KeyPair, read_key_pair, read_trusted
from tailrace.core.security.tls_config import TlsStores, TlsVersion

_VERSIONS: Final[dict[TlsVersion, ssl.TLSVersion]] = {
    "TLSv1.2": ssl.TLSVersion.TLSv1_2,
    "TLSv1.3": ssl.TLSVersion.TLSv1_3,
}


def load_stores(context: ssl.SSLContext, stores: TlsStores) -> x509.Certificate | None:
    """Bring versions, key store and trust store into a context. Blocks, 50 ms with PKCS12.

    Return the own certificate; None: there is none. Errors: InvalidKeys.
    """
    context.options |= ssl.OP_NO_RENEGOTIATION
    _limit(context, stores)
    trusted = read_trusted(stores)
    pair = read_key_pair(stores) if stores.has_key else None
    try:
        if trusted is not None:
            context.load_verify_locations(cadata=trusted)
        if pair is not None:
            _show(context, pair)
    except ssl.SSLError as error:
        why = error.reason or str(error)
        raise InvalidKeys(f"the certificate of ssl.keystore cannot be used: {why}") from error
    return None if pair is None else pair.certificate


def _limit(context: ssl.SSLContext, stores: TlsStores) -> None:
    """Allow the versions and suites that are configured. Errors: InvalidKeys."""
    versions = set(stores.enabled_protocols)
    suites = stores.allowed_suites
    if suites is not None:
        if not suites.with_1_3:
            versions.discard("TLSv1.3")
        if suites.openssl:
            try:
                context.set_ciphers(suites.openssl)
            except ssl.SSLError as error:
                why = "OpenSSL here has none of them for TLS 1.2"
                raise InvalidKeys(f"{SUITES_SETTING}: {suites.openssl}: {why}") from error
        else:
            versions.discard("TLSv1.2")
    allowed = [_VERSIONS[each] for each in versions]
    context.minimum_version, context.maximum_version = min(allowed), max(allowed)


def _show(context: ssl.SSLContext, pair: KeyPair) -> None:
    with _in_memory(pair.key) as key, _in_memory(pair.chain) as chain:
        context.load_cert_chain(chain, key)


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
