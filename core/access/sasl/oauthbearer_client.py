"""OAUTHBEARER, client side, with a token that lies in a file. Source: RFC 7628; KIP-255."""

import re
from pathlib import Path
from typing import Final

from tailrace.core.access.sasl.mechanism import AuthenticationFailed
from tailrace.core.access.sasl.work import Work

TOKEN_BYTES_MAX: Final = 64 * 1024
"""A longer file is not read."""

_TOKEN: Final = re.compile(r"[A-Za-z0-9\-._~+/]+=*")
"""RFC 6750's b64token."""


class BearerClientExchange:
    """One exchange. The file is read as it begins: tokens change."""

    mechanism = "OAUTHBEARER"

    def __init__(self, token_file: Path, work: Work) -> None:
        self._file = token_file
        self._work = work

    async def respond(self, challenge: bytes | None) -> bytes | None:
        """Return the message with the token; None after the server's empty answer.

        Errors: AuthenticationFailed: the file has no token, or the server refuses it.
        """
        if challenge is None:
            try:
                data = await self._work(lambda: read_token_file(self._file))
            except OSError as error:
                raise _no_token(self._file, error.strerror) from error
            return f"n,,\x01auth=Bearer {token_of(data, self._file)}\x01\x01".encode()
        if challenge:  # JSON; the dummy answer that would end it in order says nothing to us
            raise AuthenticationFailed("OAUTHBEARER: the server refuses the token")
        return None


def read_token_file(file: Path) -> bytes:
    """Return what is in a file, as far as it is read. Blocks. Errors: OSError."""
    with file.open("rb") as opened:
        return opened.read(TOKEN_BYTES_MAX + 1)


def token_of(data: bytes, file: Path) -> str:
    """Return the token in a file's bytes. Errors: AuthenticationFailed, which names the file."""
    text = data.decode("ascii", errors="replace").strip()
    if len(data) > TOKEN_BYTES_MAX or not _TOKEN.fullmatch(text):
        raise _no_token(file, "what it has is not a token")
    return text


def _no_token(file: Path, why: str | None) -> AuthenticationFailed:
    return AuthenticationFailed(f"OAUTHBEARER: {file}: {why}")
