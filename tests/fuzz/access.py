"""What clients log in with, and what the metadata store has of users and tokens."""

from collections.abc import Iterator

from tailrace.core.access.client.jaas import InvalidJaas, parse_jaas
from tailrace.core.access.client.java_properties import parse_properties
from tailrace.core.access.oauth.compact import TokenRefused, split_token
from tailrace.core.access.oauth.key_set import UnusableKeys, parse_key_set
from tailrace.core.access.sasl.oauthbearer_messages import (
    BadMessage,
    InitialResponse,
    parse_initial_response,
)
from tailrace.core.access.sasl.scram_messages import BadMessage as BadScram
from tailrace.core.access.sasl.scram_messages import (
    parse_client_final,
    parse_client_first,
    parse_server_final,
    parse_server_first,
)
from tailrace.core.access.tokens.codec import decode_token, encode_token
from tailrace.core.access.tokens.token import Token
from tailrace.core.access.users.codec import decode_user, encode_user
from tailrace.core.access.users.credentials import ScramCredential, ScramMechanism
from tailrace.core.errors import CorruptData
from tests.fuzz.target import Target
from tests.unit.core.access.oauth.issuer import jwk_of, key_set, raw_token


def _tokens() -> Iterator[bytes]:
    yield raw_token(b'{"alg":"RS256","kid":"k"}', b'{"sub":"a","exp":1}').encode()


def _key_sets() -> Iterator[bytes]:
    yield key_set(jwk_of("ES256"), jwk_of("Ed25519"), {"kty": "oct", "k": "AA"})


def _messages() -> Iterator[bytes]:
    yield b"n,,\x01auth=Bearer a.b.c\x01\x01"
    yield b"n,a=al=2Cice,\x01auth=Bearer a.b.c\x01pool=x y\x01\x01"


def _message(found: InitialResponse) -> bytes:
    name = found.authorization_id.replace("=", "=3D").replace(",", "=2C")
    pairs = {"auth": f"Bearer {found.token}", **found.extensions}
    listed = "".join(f"{key}={value}\x01" for key, value in pairs.items())
    return f"n,{f'a={name}' if name else ''},\x01{listed}\x01".encode()


def _users() -> Iterator[bytes]:
    credential = ScramCredential(b"salt", b"stored", b"server", 4096)
    yield encode_user({})
    yield encode_user(dict.fromkeys(ScramMechanism, credential))


TARGETS = [
    Target(
        name="stored-user",
        decode=lambda data: decode_user("/at", data),
        errors=(CorruptData,),
        encode=encode_user,
        seeds=_users,
        dictionary=(b'"SCRAM-SHA-256"', b"salt=", b"iterations=", b",", b'"version":2'),
    ),
    Target(
        name="scram-first",
        decode=parse_client_first,
        errors=(BadScram,),
        encode=lambda found: f"{found.gs2_header}{found.bare}".encode(),
        seeds=lambda: [b"n,,n=al=2Cice,r=nonce", b"n,a=bob,n=bob,r=nonce,tokenauth=true"],
        dictionary=(b"n,", b"y,", b"p=", b"a=", b"n=", b"r=", b"m=", b"=2C", b"=3D"),
    ),
    Target(
        name="scram-final",
        decode=parse_client_final,
        errors=(BadScram,),
        seeds=lambda: [b"c=biws,r=nonce,p=cHJvb2Y=", b"c=biws,r=nonce,x=y,p=cHJvb2Y="],
        dictionary=(b"c=", b"r=", b"p=", b"biws", b"="),
    ),
    Target(
        name="scram-server-first",
        decode=parse_server_first,
        errors=(BadScram,),
        seeds=lambda: [b"r=nonce,s=c2FsdA==,i=4096"],
        dictionary=(b"r=", b"s=", b"i=", b"e=", b"m=", b"999999999999", b"="),
    ),
    Target(
        name="scram-server-final",
        decode=parse_server_final,
        errors=(BadScram,),
        seeds=lambda: [b"v=c2lnbmF0dXJl", b"e=invalid-proof"],
        dictionary=(b"v=", b"e=", b"="),
    ),
    Target(
        name="jaas",
        decode=lambda data: parse_jaas(data.decode("latin-1")),
        errors=(InvalidJaas,),
        seeds=lambda: [b'a.b.PlainLoginModule required username="u" password=\'p\\\\"\';'],
        dictionary=(b"required", b"/*", b"*/", b"//", b"=", b";", b'"', b"\\"),
    ),
    Target(
        name="java-properties",
        decode=lambda data: parse_properties(data.decode("latin-1")),
        errors=(ValueError,),
        seeds=lambda: [b"# c\na=b\nc : d\\\n  e\n\\u00e4=1\n"],
        dictionary=(b"\\u", b"\\\n", b"=", b":", b"!", b"#"),
    ),
    Target(
        name="delegation-token",
        decode=lambda data: decode_token("/at", data),
        errors=(CorruptData,),
        encode=encode_token,
        seeds=lambda: [encode_token(Token("id", "User:a", "User:b", ("User:c",), 1, 2, 3))],
        dictionary=(b'"renewers":[]', b'"version":2', b"-1"),
    ),
    Target(
        name="bearer-token",
        decode=lambda data: split_token(data.decode("latin-1")),
        errors=(TokenRefused,),
        seeds=_tokens,
        dictionary=(b".", b"eyJhbGciOiJub25lIn0", b"bnVsbA", b"W10"),
    ),
    Target(
        name="key-set",
        decode=parse_key_set,
        errors=(UnusableKeys,),
        seeds=_key_sets,
        memory_base=2 * 1024 * 1024,  # what OpenSSL and its bindings take once
        dictionary=(b'"kty"', b'"RSA"', b'"crv"', b'"use":"enc"', b'"alg":"none"', b"[", b"{"),
    ),
    Target(
        name="oauthbearer",
        decode=parse_initial_response,
        errors=(BadMessage,),
        seeds=_messages,
        encode=_message,
        dictionary=(b"\x01", b"a=", b"auth=", b"Bearer ", b"=2C", b"=3D"),
    ),
]
