import pytest

from tailrace.core import errors
from tailrace.core.errors import CoreError
from tailrace.protocol.proxy.common_pb2 import StatusCode as ContractCode
from tailrace.protocol.proxy.write_proxy_pb2 import ServerInfo
from tailrace.proxy.owner.codes import (
    _TABLE,
    ServerStatus,
    StatusCode,
    StreamReserved,
    status_code,
)


def subclasses(of: type[CoreError]) -> set[type[CoreError]]:
    return {of}.union(*(subclasses(each) for each in of.__subclasses__()))


def test_every_error_of_core_has_a_row() -> None:
    ours = {each for each in subclasses(CoreError) if each.__module__ == errors.__name__}
    assert {*ours, StreamReserved} == set(_TABLE)


@pytest.mark.parametrize("kind", sorted(_TABLE, key=lambda kind: kind.__name__))
def test_an_error_that_knows_its_own_code_has_that_one(kind: type[CoreError]) -> None:
    own = getattr(kind, "code", None)
    if own is not None:
        assert _TABLE[kind] == own


@pytest.mark.parametrize(
    ("error", "code"),
    [  # reference 15.2: the exception's name and its code
        (errors.OwnershipLost("x"), 504),
        (errors.OwnershipAcquireFailed("x", current_owner="y"), 302),
        (errors.NotYetImplemented("x"), 501),
        (errors.LedgerFenced("x"), 507),
        (errors.LogNotFound("x"), 510),
        (errors.AlreadyTruncatedTransaction("x"), 511),
        (errors.EndOfStream("x"), 512),
        (errors.TransactionIdOutOfOrder("x"), 513),
        (errors.WriteCancelled("x"), 516),
        (errors.OverCapacity("x"), 517),
        (errors.InvalidEnvelopedEntry("x"), 520),
        (errors.LogExists("x"), 522),
        (errors.InvalidStreamName("x"), 602),
        (errors.DLIllegalState("x"), 603),
        (errors.ReadCancelled("x"), 1002),
        (errors.LogRecordTooLong("x"), 413),
        (errors.Unavailable("x"), 515),
        (StreamReserved("x"), 403),
    ],
)
def test_codes_are_those_of_distributedlog(error: CoreError, code: int) -> None:
    assert status_code(error) == code


def test_a_class_without_a_row_has_its_ancestors_code() -> None:
    class Special(errors.LogNotFound):
        pass

    assert status_code(Special("x")) is StatusCode.LOG_NOT_FOUND


def test_numbers_are_dense_where_distributedlogs_are() -> None:
    assert {code for code in StatusCode if 500 <= code < 600} == set(range(500, 528))
    assert [status.value for status in ServerStatus] == [100, 200, 300]


def test_codes_are_those_of_the_contract() -> None:
    contract = {ContractCode.Name(number): number for number in ContractCode.values() if number}
    assert {code.name: code.value for code in StatusCode} == contract
    status = {name: number for name, number in ServerInfo.ServerStatus.items() if number}
    assert {each.name: each.value for each in ServerStatus} == status
