"""AlterUserScramCredentials, API 51, v0: users that log in by SCRAM, and by PLAIN.

Kept: each user once a request, of one mechanism; those that are right change together, on disk and
in force here before the answer; the codes and words of what is refused. Not kept: a name that is
not its own form by SASLprep is refused (look-alikes), as are more than 1,000 users.
Source: org.apache.kafka.controller.ScramControlManager.
"""

from collections.abc import Iterator
from typing import TypeAlias

from tailrace.broker.authorization.required import WHY
from tailrace.broker.context import RequestContext
from tailrace.broker.errors import KafkaError, admin_error_code
from tailrace.broker.handlers import handles
from tailrace.broker.handlers._names import repeated
from tailrace.core.access.acls.model import Operation
from tailrace.core.access.users.alterations import ALTERED_MAX, Alteration, alter_users
from tailrace.core.access.users.credentials import ScramMechanism, credential_from
from tailrace.core.access.users.new_credentials import (
    UnacceptableCredential,
    check_iterations,
    check_salted,
    check_user,
)
from tailrace.core.access.users.prepared import CHARACTERS_MAX, is_plain
from tailrace.core.errors import CoreError
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.kafka.apis import ALTER_USER_SCRAM_CREDENTIALS
from tailrace.protocol.kafka.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)

Entry: TypeAlias = ScramCredentialDeletion | ScramCredentialUpsertion

TWICE = "A user credential cannot be altered twice in the same request"
MISSING = "Attempt to delete a user credential that does not exist"
TOO_MANY = f"A request may alter {ALTERED_MAX} users"
ENTRY_UNITS = 10
"""What it takes to check one entry, and to make its two keys."""
NAME_UNITS = 300
"""What it takes to check a name that is not plain."""


@handles(ALTER_USER_SCRAM_CREDENTIALS)
async def alter_user_scram_credentials(
    ctx: RequestContext, request: AlterUserScramCredentialsRequest
) -> AlterUserScramCredentialsResponse:
    """Create, change and delete credentials."""
    pace = ctx.pace()
    entries = {each.name: each async for each in pace.each(_entries(request))}
    twice = await repeated((each.name for each in _entries(request)), pace)
    if code := ctx.cluster_refusal(Operation.ALTER):
        denied = KafkaError(code, WHY[code])
        return AlterUserScramCredentialsResponse(
            results=[_result(name, denied) async for name in pace.each(entries)]
        )
    errors: dict[str, KafkaError] = {}
    alterations: dict[str, Alteration] = {}
    async for name, entry in pace.each(entries.items(), ENTRY_UNITS):
        if not is_plain(name) and len(name) <= CHARACTERS_MAX:
            await pace.spend(NAME_UNITS)
        try:
            _check_number(len(entries), is_twice=name in twice)
            alterations[name] = _alteration(entry)
        except KafkaError as error:
            errors[name] = error
    try:
        for name in await alter_users(ctx.broker.users, alterations):
            errors[name] = KafkaError(ErrorCode.RESOURCE_NOT_FOUND, MISSING)
    except CoreError as error:
        failure = KafkaError(admin_error_code(error), str(error))
        errors.update(dict.fromkeys(alterations, failure))
    return AlterUserScramCredentialsResponse(
        results=[_result(name, errors.get(name)) async for name in pace.each(entries)]
    )


def _entries(request: AlterUserScramCredentialsRequest) -> Iterator[Entry]:
    yield from request.deletions
    yield from request.upsertions


def _check_number(users: int, *, is_twice: bool) -> None:
    if is_twice:
        raise KafkaError(ErrorCode.DUPLICATE_RESOURCE, TWICE)
    if users > ALTERED_MAX:
        raise KafkaError(ErrorCode.POLICY_VIOLATION, TOO_MANY)


def _alteration(entry: Entry) -> Alteration:
    """Return what is to become of a user. Errors: KafkaError."""
    try:
        check_user(entry.name)
        if entry.mechanism not in ScramMechanism.__members__.values():
            raise KafkaError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
        mechanism = ScramMechanism(entry.mechanism)
        if isinstance(entry, ScramCredentialDeletion):
            return Alteration(mechanism, None)
        check_iterations(entry.iterations)
        salt, salted = bytes(entry.salt), bytes(entry.salted_password)
        check_salted(salt, salted)
    except UnacceptableCredential as error:
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, str(error)) from None
    return Alteration(mechanism, credential_from(mechanism, salted, salt, entry.iterations))


def _result(name: str, error: KafkaError | None) -> AlterUserScramCredentialsResult:
    return AlterUserScramCredentialsResult(
        user=name,
        error_code=ErrorCode.NONE if error is None else error.code,
        error_message=None if error is None else error.detail,
    )
