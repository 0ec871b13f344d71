"""An issuer's public keys: a JWK set (RFC 7517), and signatures that are checked by them.

Only public keys are taken out of a set, each with the algorithms that fit its kind, so a token's
header chooses among what its key is for and nothing else. Importing this module costs 150 ms.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from joserfc import jws
from joserfc.errors import JoseError, UnsupportedAlgorithmError
from joserfc.jwa import JWSAlgModel
from joserfc.jwk import ECKey, OKPKey, RSAKey
from typing_extensions import override

from tailrace.core.access.oauth.compact import (
    ALGORITHMS,
    HEADER_BYTES_MAX,
    KEY_SET_BYTES_MAX,
    TOKEN_BYTES_MAX,
    TokenRefused,
    UnverifiedToken,
    json_object,
)

KEYS_MAX: Final = 100
RSA_BITS: Final = range(2048, 8193)
"""Shorter ones can be broken; longer ones cost a millisecond a signature and more."""

VALUE_CHARS_MAX: Final = 2048
"""Of one number of a key, in base64: more than any that is used has."""

Key: TypeAlias = RSAKey | ECKey | OKPKey

_RSA: Final = frozenset(each for each in ALGORITHMS if each[:2] in {"RS", "PS"})
_CURVES: Final = {
    "P-256": frozenset({"ES256"}),
    "P-384": frozenset({"ES384"}),
    "P-521": frozenset({"ES512"}),
    "Ed25519": frozenset({"EdDSA", "Ed25519"}),
}
_PUBLIC: Final = {"RSA": ("n", "e"), "EC": ("crv", "x", "y"), "OKP": ("crv", "x")}


class UnusableKeys(Exception):
    """What an endpoint gave is not a set of keys; the text says why."""


class _Registry(jws.JWSRegistry):
    max_header_length = HEADER_BYTES_MAX
    max_payload_length = TOKEN_BYTES_MAX
    max_signature_length = RSA_BITS.stop // 6 + 4

    @override
    def get_alg(self, name: str) -> JWSAlgModel:
        """Return an algorithm that is allowed; the library's own warns of EdDSA's general name."""
        if self.allowed is None or name not in self.allowed:
            raise UnsupportedAlgorithmError(f"{name} is not allowed")
        return self.algorithms[name]


_REGISTRIES: Final = {
    each: _Registry(algorithms=[each], strict_check_header=False) for each in ALGORITHMS
}


class PublicKey(NamedTuple):
    """One key."""

    key_id: str | None
    algorithms: frozenset[str]
    """What signatures are checked by it."""
    key: Key

    def check(self, token: UnverifiedToken) -> None:
        """Check that a token is signed with this key.

        Errors: TokenRefused. Cost: 0.1 to 0.6 ms (RSA of 2,048 bits, P-521).
        """
        assert token.algorithm in self.algorithms
        try:
            jws.deserialize_compact(token.text, self.key, registry=_REGISTRIES[token.algorithm])
        except (JoseError, ValueError) as error:
            raise TokenRefused(f"its signature: {type(error).__name__}") from None


class KeySet(NamedTuple):
    """The keys of one reading."""

    keys: tuple[PublicKey, ...]

    def find(self, token: UnverifiedToken) -> PublicKey | None:
        """Return the key that a token names; without a name, the only one that fits."""
        fitting = [each for each in self.keys if token.algorithm in each.algorithms]
        if token.key_id is None:
            return fitting[0] if len(fitting) == 1 else None
        return next((each for each in fitting if each.key_id == token.key_id), None)


def parse_key_set(data: bytes) -> KeySet:
    """Read a JWK set; keys that are for something else, or unknown here, are left out.

    Errors: UnusableKeys, also when none is left. Cost: up to 30 ms, in a thread.
    """
    if len(data) > KEY_SET_BYTES_MAX:
        raise UnusableKeys(f"more than {KEY_SET_BYTES_MAX} bytes")
    try:
        listed = json_object(data, "key set").get("keys")
    except TokenRefused:
        raise UnusableKeys("it is not a JSON object") from None
    if not isinstance(listed, list):
        raise UnusableKeys("it has no list of keys")
    if len(listed) > KEYS_MAX:
        raise UnusableKeys(f"it has more than {KEYS_MAX} keys")
    keys = tuple(_usable(listed))
    if not keys:
        raise UnusableKeys("it has no public key for signatures of RSA, EC or Ed25519")
    return KeySet(keys)


def _usable(listed: Iterable[Any]) -> Iterable[PublicKey]:
    for given in listed:
        if isinstance(given, Mapping) and _is_for_signatures(given):
            key = _key(given)
            algorithms = frozenset[str]() if key is None else _algorithms(key)
            named = given.get("alg")
            if named is not None:
                algorithms &= {named} if isinstance(named, str) else set()
            key_id = given.get("kid")
            if key is not None and algorithms and (key_id is None or isinstance(key_id, str)):
                yield PublicKey(key_id, algorithms, key)


def _is_for_signatures(given: Mapping[str, Any]) -> bool:
    operations = given.get("key_ops")
    may_verify = operations is None or (isinstance(operations, list) and "verify" in operations)
    return may_verify and given.get("use") in (None, "sig")


def _key(given: Mapping[str, Any]) -> Key | None:
    """Return the key without what is private in it, None for one that cannot be used."""
    kind = given.get("kty")
    if not isinstance(kind, str) or kind not in _PUBLIC:
        return None
    values = {name: given.get(name) for name in _PUBLIC[kind]}
    if not all(isinstance(each, str) and len(each) <= VALUE_CHARS_MAX for each in values.values()):
        return None
    public: Any = {"kty": kind, **values}
    try:
        if kind == "RSA":
            return RSAKey.import_key(public)
        return ECKey.import_key(public) if kind == "EC" else OKPKey.import_key(public)
    except (JoseError, ValueError):
        return None


def _algorithms(key: Key) -> frozenset[str]:
    if isinstance(key, RSAKey):
        return _RSA if key.public_key.key_size in RSA_BITS else frozenset()
    return _CURVES.get(key.curve_name, frozenset())
