"""What strangers prove themselves by, and how users lie in the metadata store."""

from collections.abc import Callable
from typing import Any, Final

from tailrace.core.access.sasl.scram_messages import (
    BadMessage,
    parse_client_final,
    parse_client_first,
)
from tailrace.core.access.users.codec import Credentials, decode_user, encode_user
from tailrace.core.access.users.credentials import ScramCredential, ScramMechanism
from tailrace.core.errors import CorruptData
from tests.fuzz.target import Target

CREDENTIAL: Final = ScramCredential(b"salt", b"stored" * 5, b"server" * 5, 4096)
USER: Final[Credentials] = dict.fromkeys(ScramMechanism, CREDENTIAL)


def _scram(name: str, decode: Callable[[bytes], Any], *seeds: bytes) -> Target:
    words = (b"n,", b"y,", b",r=", b",p=", b"n=", b"a=", b"=2C", b"=3D", b",m=", b"c=biws")
    return Target(
        name=name, decode=decode, errors=(BadMessage,), seeds=lambda: seeds, dictionary=words
    )


TARGETS = (
    _scram(
        "scram-client-first",
        parse_client_first,
        b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO",
        b"y,a=a=2Cb,n=a=2Cb,r=x,tokenauth=true",
    ),
    _scram(
        "scram-client-final",
        parse_client_final,
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
        b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
    ),
    Target(
        name="user",
        decode=lambda data: decode_user("/users/alice", data),
        errors=(CorruptData,),
        seeds=lambda: [encode_user(USER), encode_user({})],
        encode=encode_user,
    ),
)
