"""SASL's DIGEST-MD5 (RFC 2831) as BookKeeper uses it: authentication only, both sides. Pure.

    client            (nothing)              -->
                      <-- realm, nonce, qop, charset, algorithm
                      username, cnonce, response  -->
                      <-- rspauth: the server knows the password as well

Its arithmetic is weak by today's measure (RFC 6331 retired it): whoever hears an exchange can try
passwords against it. It belongs inside of TLS, or into a network that nobody else hears.
"""

import hashlib
import hmac
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

MESSAGE_BYTES_MAX: Final = 4_096
"""RFC 2831's limit of a response; of a challenge it is half."""
_FIRST_USE: Final = b"00000001"
_SEPARATORS: Final = frozenset(b'()<>@,;:\\"/[]?={} \t')


class DigestFailed(Exception):
    """The exchange is over; the message has no secrets and may go into a log."""


class Service(NamedTuple):
    """What a client authenticates to; both sides name it alike."""

    protocol: str
    host: str

    @property
    def uri(self) -> bytes:
        """The digest-uri."""
        return f"{self.protocol}/{self.host}".encode()


BOOKKEEPER: Final = Service("bookkeeper", "bookkeeper")
"""Every bookie: no name of a host is part of it."""


class _Session(NamedTuple):
    """What both sides compute from."""

    user: bytes
    realm: bytes
    password: bytes
    nonce: bytes
    cnonce: bytes
    uri: bytes
    authzid: bytes | None

    def value(self, method: bytes) -> bytes:
        """Return `response` (method AUTHENTICATE) or `rspauth` (no method)."""
        secret = _md5(b":".join((self.user, self.realm, self.password)))
        parts = [secret, self.nonce, self.cnonce]
        if self.authzid is not None:
            parts.append(self.authzid)
        a1 = _hex(b":".join(parts))
        a2 = _hex(method + b":" + self.uri)
        return _hex(b":".join((a1, self.nonce, _FIRST_USE, self.cnonce, b"auth", a2)))


class DigestServer:
    """One exchange, server side."""

    def __init__(
        self, service: Service, nonce: str, password_of: Callable[[str], str | None]
    ) -> None:
        """`password_of`: of a user; None: there is no such user, which looks the same from outside.

        `nonce`: of this exchange alone, and not to be guessed.
        """
        self._service = service
        self._nonce = nonce.encode()
        self._realm = service.host.encode()
        self._password_of = password_of
        self._has_challenged = self._is_over = False
        self.user: str | None = None
        """Who it is, once it is known."""

    def evaluate(self, message: bytes) -> bytes:
        """Answer a message. Errors: DigestFailed, after which nothing more may be asked."""
        if self._is_over:
            raise DigestFailed("a message behind the last one")
        if self._has_challenged:
            self._is_over = True
            return self._verify(message)
        if message:
            raise DigestFailed("a response before the challenge")
        self._has_challenged = True
        parts = [("realm", self._realm), ("nonce", self._nonce), ("qop", b"auth")]
        return _written(parts) + b",charset=utf-8,algorithm=md5-sess"

    def _verify(self, message: bytes) -> bytes:
        given = _Directives(message)
        user, is_utf8 = given.one("username"), given.charset_is_utf8()
        self._check(given)
        name = _text(user, is_utf8=is_utf8)
        password = self._password_of(name)
        authzid = given.maybe("authzid")
        session = _Session(
            _hashed(name),
            _hashed(_text(given.maybe("realm") or b"", is_utf8=is_utf8)),
            _hashed(password or ""),
            self._nonce,
            given.one("cnonce"),
            given.one("digest-uri"),
            authzid,
        )
        is_right = hmac.compare_digest(session.value(b"AUTHENTICATE"), given.one("response"))
        if not is_right or password is None:
            raise DigestFailed(f"no such user, or another password: {name!r}")
        if authzid not in (None, user):
            raise DigestFailed(f"{name!r} wants to act for another")
        self.user = name
        return b"rspauth=" + session.value(b"")

    def _check(self, given: "_Directives") -> None:
        """Refuse what is not an answer to our challenge."""
        if given.one("nonce") != self._nonce or given.one("nc") != _FIRST_USE:
            raise DigestFailed("it answers another challenge")
        if given.maybe("realm") not in (None, self._realm):
            raise DigestFailed("another realm")
        if given.maybe("qop") not in (None, b"auth"):
            raise DigestFailed("a quality of protection that was not offered")
        if given.one("digest-uri").lower() != self._service.uri.lower():
            raise DigestFailed("it is for another service")


class DigestClient:
    """One exchange, client side."""

    def __init__(self, service: Service, user: str, password: str, cnonce: str) -> None:
        """`cnonce`: of this exchange alone, and not to be guessed."""
        self._service = service
        self._user = user
        self._password = password
        self._cnonce = cnonce.encode()
        self._session: _Session | None = None

    def respond(self, challenge: bytes | None) -> bytes | None:
        """Return what to send; None: the server has proved itself, and all is over.

        `challenge` None: the first message. Errors: DigestFailed: it does not know the password, or
        asks for what is not spoken here.
        """
        if challenge is None:
            return b""
        given = _Directives(challenge)
        if self._session is not None:
            if not hmac.compare_digest(given.one("rspauth"), self._session.value(b"")):
                raise DigestFailed("the server does not know the password")
            return None
        return self._answer(given)

    def _answer(self, given: "_Directives") -> bytes:
        if given.one("algorithm") != b"md5-sess":
            raise DigestFailed("another algorithm than md5-sess")
        offered = given.maybe("qop")
        if offered is not None and b"auth" not in [each.strip() for each in offered.split(b",")]:
            raise DigestFailed("the server does not offer qop=auth")
        is_utf8 = given.charset_is_utf8()
        realm = next(iter(given.all("realm")), b"")
        self._session = session = _Session(
            _hashed(self._user),
            _hashed(_text(realm, is_utf8=is_utf8)),
            _hashed(self._password),
            given.one("nonce"),
            self._cnonce,
            self._service.uri,
            None,
        )
        charset = "utf-8" if is_utf8 else "latin-1"
        try:
            user = self._user.encode(charset)
        except UnicodeEncodeError:
            raise DigestFailed("the server takes no such user name: it has no UTF-8") from None
        parts = [("username", user), ("realm", realm), ("nonce", session.nonce)]
        parts += [("cnonce", session.cnonce), ("digest-uri", session.uri)]
        head = b"charset=utf-8," if is_utf8 else b""
        value = session.value(b"AUTHENTICATE")
        return head + _written(parts) + b",nc=" + _FIRST_USE + b",qop=auth,response=" + value


class _Directives:
    """The `name=value` pairs of a message."""

    def __init__(self, message: bytes) -> None:
        """Take a message apart. Errors: DigestFailed."""
        if len(message) > MESSAGE_BYTES_MAX:
            raise DigestFailed(f"a message of {len(message)} bytes")
        self._pairs = list(_parsed(message))

    def all(self, name: str) -> Sequence[bytes]:
        """Return the values of a name, in order."""
        wanted = name.encode()
        return [value for each, value in self._pairs if each == wanted]

    def maybe(self, name: str) -> bytes | None:
        """Return the value; None: it is not there. Errors: DigestFailed: it is there twice."""
        found = self.all(name)
        if len(found) > 1:
            raise DigestFailed(f"{name} comes twice")
        return found[0] if found else None

    def one(self, name: str) -> bytes:
        """Return the value. Errors: DigestFailed, also where it is empty."""
        found = self.maybe(name)
        if not found:
            raise DigestFailed(f"{name} is missing")
        return found

    def charset_is_utf8(self) -> bool:
        """Whether texts are UTF-8; else they are ISO 8859-1."""
        charset = self.maybe("charset")
        if charset not in (None, b"utf-8"):
            raise DigestFailed("another charset than utf-8")
        return charset is not None


def _parsed(message: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield names, in lower case, and values. One pass. Errors: DigestFailed."""
    at = 0
    while at < len(message):
        if message[at] in b" \t\r\n,":
            at += 1
            continue
        equals = message.find(b"=", at)
        name = message[at:equals].strip() if equals > at else b""
        if not name or any(byte in _SEPARATORS for byte in name):
            raise DigestFailed("not a list of name=value")
        value, at = _value(message, equals + 1)
        yield name.lower(), value


def _value(message: bytes, at: int) -> tuple[bytes, int]:
    """Return a value, and where the next pair may begin."""
    if message[at : at + 1] != b'"':
        end = message.find(b",", at)
        end = len(message) if end < 0 else end
        return message[at:end].strip(), end
    value = bytearray()
    at += 1
    while at < len(message) and message[at] != ord('"'):
        at += message[at] == ord("\\")
        value += message[at : at + 1]
        at += 1
    if at >= len(message):
        raise DigestFailed("a quoted value without an end")
    rest = message[at + 1 :].lstrip(b" \t\r\n")
    if rest and not rest.startswith(b","):
        raise DigestFailed("something behind a quoted value")
    return bytes(value), at + 1


def _written(parts: Sequence[tuple[str, bytes]]) -> bytes:
    """Return pairs with quoted values."""
    quoted = ((name, value.replace(b"\\", b"\\\\").replace(b'"', b'\\"')) for name, value in parts)
    return b",".join(name.encode() + b'="' + value + b'"' for name, value in quoted)


def _text(value: bytes, *, is_utf8: bool) -> str:
    try:
        return value.decode("utf-8" if is_utf8 else "latin-1")
    except UnicodeDecodeError:
        raise DigestFailed("text that is not UTF-8") from None


def _hashed(text: str) -> bytes:
    """Return what of a text is hashed: ISO 8859-1 if it has all its letters (RFC 2831, 2.1.2.1)."""
    try:
        return text.encode("latin-1")
    except UnicodeEncodeError:
        return text.encode()


def _md5(data: bytes) -> bytes:
    return hashlib.md5(data).digest()  # the mechanism's, not our choice


def _hex(data: bytes) -> bytes:
    return _md5(data).hex().encode()
