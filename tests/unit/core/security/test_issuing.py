"""Certificates of an own authority: TLS takes them, for the names they have and no others."""

import asyncio
import ssl
from pathlib import Path

import pytest
from cryptography import x509

from tailrace.core.runtime.clock import SystemClock
from tailrace.core.security.issuing import (
    NAMES_MAX,
    RENEW_DAYS,
    SERVER_DAYS,
    CannotIssue,
    Issued,
    is_due,
    issue,
    new_authority,
)

NOW_MS = SystemClock().now_ms()
DAY_MS = 24 * 3600 * 1000
NAMES = ("localhost", "127.0.0.1", "::1")


async def _shake(server: ssl.SSLContext, client: ssl.SSLContext, name: str) -> None:
    listening = await asyncio.start_server(
        lambda _, writer: writer.close(), "127.0.0.1", 0, ssl=server
    )
    port = listening.sockets[0].getsockname()[1]
    try:
        _, writer = await asyncio.open_connection(
            "127.0.0.1", port, ssl=client, server_hostname=name
        )
        writer.close()
    finally:
        listening.close()


def contexts(directory: Path, authority: Issued) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    store = directory / "server.pem"
    store.write_bytes(issue(authority, NAMES, NOW_MS).store)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(store)
    client = ssl.create_default_context(cadata=authority.certificate.decode())
    client.verify_flags |= ssl.VERIFY_X509_STRICT  # Python's default from 3.13 on
    return server, client


def test_a_client_that_trusts_the_authority_takes_the_names_of_the_certificate(
    tmp_path: Path,
) -> None:
    server, client = contexts(tmp_path, new_authority("an authority", NOW_MS))
    for name in NAMES:
        asyncio.run(_shake(server, client, name))
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        asyncio.run(_shake(server, client, "example.com"))


def test_another_authority_is_not_trusted(tmp_path: Path) -> None:
    server, _ = contexts(tmp_path, new_authority("an authority", NOW_MS))
    _, client = contexts(tmp_path, new_authority("an authority", NOW_MS))
    with pytest.raises(ssl.SSLCertVerificationError):
        asyncio.run(_shake(server, client, "localhost"))


def test_a_certificate_is_due_when_a_name_is_missing_or_little_time_is_left() -> None:
    certificate = issue(new_authority("an authority", NOW_MS), NAMES, NOW_MS).certificate
    first_due = NOW_MS + (SERVER_DAYS - RENEW_DAYS) * DAY_MS
    assert not is_due(certificate, NAMES, NOW_MS)
    assert not is_due(certificate, ("::1",), first_due - DAY_MS)
    assert is_due(certificate, NAMES, first_due + DAY_MS)
    assert is_due(certificate, (*NAMES, "broker1"), NOW_MS)
    assert is_due(certificate, (*NAMES, "10.0.0.1"), NOW_MS)


def test_the_authority_signs_no_authorities() -> None:
    found = x509.load_pem_x509_certificate(new_authority("an authority", NOW_MS).certificate)
    constraints = found.extensions.get_extension_for_class(x509.BasicConstraints)
    assert (constraints.critical, constraints.value.path_length) == (True, 0)


def test_what_cannot_be_issued() -> None:
    authority = new_authority("an authority", NOW_MS)
    with pytest.raises(CannotIssue, match="not a host name"):
        issue(authority, ("bröker",), NOW_MS)
    with pytest.raises(CannotIssue, match="names"):
        issue(authority, [f"b{number}" for number in range(NAMES_MAX + 1)], NOW_MS)
    with pytest.raises(CannotIssue, match="cannot be read"):
        issue(Issued(b"no key", authority.certificate), NAMES, NOW_MS)
