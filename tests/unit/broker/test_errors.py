"""Every error of core has a code, and no code says less than Kafka's clients need."""

import pytest

from tailrace.broker.errors import _TABLE, KafkaError, admin_error_code, error_code
from tailrace.core import errors
from tailrace.core.errors import CoreError
from tailrace.protocol.errors import ErrorCode


def subclasses(of: type[CoreError]) -> set[type[CoreError]]:
    return {of}.union(*(subclasses(each) for each in of.__subclasses__()))


def test_every_error_of_core_has_a_row() -> None:
    ours = {each for each in subclasses(CoreError) if each.__module__ == errors.__name__}
    assert ours == set(_TABLE)


def test_nothing_maps_to_success() -> None:
    assert ErrorCode.NONE not in _TABLE.values()


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.LedgerFenced("x"), ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (errors.LogTruncated("x"), ErrorCode.OFFSET_OUT_OF_RANGE),
        (errors.LogRecordTooLong("x"), ErrorCode.MESSAGE_TOO_LARGE),
        (KafkaError(ErrorCode.POLICY_VIOLATION, "why"), ErrorCode.POLICY_VIOLATION),
    ],
)
def test_the_table(error: CoreError | KafkaError, code: ErrorCode) -> None:
    assert error_code(error) is code


def test_a_subclass_without_a_row_gets_its_ancestors_code() -> None:
    class Special(errors.LogTruncated):
        pass

    assert error_code(Special("x")) is ErrorCode.OFFSET_OUT_OF_RANGE


def test_who_administers_is_not_told_to_look_for_a_leader() -> None:
    away = errors.Unavailable("the metadata store does not answer")
    assert (error_code(away), admin_error_code(away)) == (
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
    )
    refused = KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert admin_error_code(refused) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert admin_error_code(errors.LogExists("t")) is ErrorCode.TOPIC_ALREADY_EXISTS
