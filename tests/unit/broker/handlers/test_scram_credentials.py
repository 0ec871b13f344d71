"""AlterUserScramCredentials and DescribeUserScramCredentials."""

from pathlib import Path

import pytest

from tailrace.core.access.users.credentials import ScramMechanism
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.kafka.apis import (
    ALTER_USER_SCRAM_CREDENTIALS,
    DESCRIBE_USER_SCRAM_CREDENTIALS,
)
from tailrace.protocol.kafka.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from tailrace.protocol.kafka.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    UserName,
)
from tests.unit.broker.handlers.admin_support import Admin, admin, run


def put(
    name: str, mechanism: int = 1, iterations: int = 4096, salt: bytes = b"salt"
) -> ScramCredentialUpsertion:
    return ScramCredentialUpsertion(
        name=name,
        mechanism=mechanism,
        iterations=iterations,
        salt=salt,
        salted_password=b"salted",
    )


def drop(name: str, mechanism: int = 1) -> ScramCredentialDeletion:
    return ScramCredentialDeletion(name=name, mechanism=mechanism)


async def alter(
    to: Admin, *entries: ScramCredentialUpsertion | ScramCredentialDeletion
) -> dict[str, tuple[int, str | None]]:
    request = AlterUserScramCredentialsRequest(
        deletions=[each for each in entries if isinstance(each, ScramCredentialDeletion)],
        upsertions=[each for each in entries if isinstance(each, ScramCredentialUpsertion)],
    )
    answer = await to.ask(ALTER_USER_SCRAM_CREDENTIALS, 0, request)
    assert len({each.user for each in answer.results}) == len(answer.results)
    return {each.user: (each.error_code, each.error_message) for each in answer.results}


async def described(to: Admin, *names: str) -> list[tuple[str, int, list[tuple[int, int]]]]:
    users = [UserName(name=name) for name in names] or None
    request = DescribeUserScramCredentialsRequest(users=users)
    answer = await to.ask(DESCRIBE_USER_SCRAM_CREDENTIALS, 0, request)
    assert answer.error_code == 0
    return [
        (each.user, each.error_code, [(c.mechanism, c.iterations) for c in each.credential_infos])
        for each in answer.results
    ]


def test_users_come_change_and_go(tmp_path: Path) -> None:
    async def story() -> None:
        async with admin(tmp_path) as to:
            assert await described(to) == []
            assert await alter(to, put("b"), put("a", 2, 8192)) == {"a": (0, None), "b": (0, None)}
            assert await alter(to, put("a", 1, 16384)) == {"a": (0, None)}
            assert await described(to) == [("a", 0, [(1, 16384), (2, 8192)]),
                                           ("b", 0, [(1, 4096)])]  # fmt: skip
            assert await described(to, "b", "c", "c") == [
                ("b", 0, [(1, 4096)]),
                ("c", ErrorCode.DUPLICATE_RESOURCE, []),
            ]
            assert await alter(to, drop("a"), drop("b")) == {"a": (0, None), "b": (0, None)}
            assert await described(to) == [("a", 0, [(2, 8192)])]
            kept = to.users.get("a")
            assert kept is not None
            assert kept[ScramMechanism.SCRAM_SHA_512].salt == b"salt"

    run(story)


@pytest.mark.parametrize(
    ("entry", "code", "words"),
    [
        (put(""), ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty"),
        (put("\u2168"), ErrorCode.UNACCEPTABLE_CREDENTIAL, "SASLprep"),
        (put("x" * 32_000), ErrorCode.UNACCEPTABLE_CREDENTIAL, "32000 characters"),
        (put("a", 0), ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"),
        (put("a", 3), ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"),
        (put("a", -1), ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"),
        (put("a", 1, 4095), ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations"),
        (put("a", 1, 16385), ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations"),
        (put("a", salt=b""), ErrorCode.UNACCEPTABLE_CREDENTIAL, "salt"),
        (drop("a"), ErrorCode.RESOURCE_NOT_FOUND, "does not exist"),
        (drop("a", 7), ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"),
    ],
)
def test_what_is_wrong_is_refused_and_the_others_change(
    tmp_path: Path,
    entry: ScramCredentialUpsertion | ScramCredentialDeletion,
    code: ErrorCode,
    words: str,
) -> None:
    async def story() -> None:
        async with admin(tmp_path) as to:
            outcome = await alter(to, entry, put("right"))
            assert outcome.pop("right") == (0, None)
            ((found, message),) = outcome.values()
            assert found == code
            assert words in (message or "")
            assert sorted(to.users) == ["right"]

    run(story)


def test_each_user_once_a_request(tmp_path: Path) -> None:
    async def story() -> None:
        async with admin(tmp_path) as to:
            outcome = await alter(to, put("a"), put("a", 2), put("b"), drop("b"), put("c"))
            codes = {name: code for name, (code, _) in outcome.items()}
            assert codes == {"a": 92, "b": 92, "c": 0}
            assert sorted(to.users) == ["c"]

    run(story)


def test_a_thousand_users_and_no_more(tmp_path: Path) -> None:
    async def story() -> None:
        async with admin(tmp_path) as to:
            outcome = await alter(to, *(put(f"u{number}") for number in range(1000)))
            assert set(outcome.values()) == {(0, None)}
            outcome = await alter(to, *(put(f"v{number}") for number in range(1001)))
            assert {code for code, _ in outcome.values()} == {ErrorCode.POLICY_VIOLATION}
            assert len(to.users) == 1000

    run(story)
