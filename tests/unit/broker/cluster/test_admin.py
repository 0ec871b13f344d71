"""The size of a new topic: Kafka's checks in Kafka's order."""

import pytest

from tailrace.broker.cluster.admin import (
    Asked,
    Nodes,
    Shape,
    check_assignment,
    check_ensemble,
    check_new_assignments,
    check_new_partitions,
    shape_of,
)
from tailrace.broker.cluster.config import TopicsConfig
from tailrace.broker.errors import KafkaError
from tailrace.protocol.errors import ErrorCode

DEFAULTS = Shape(3, 1)
ONE = Nodes((1,), 1)
REFUSE, CLAMP = TopicsConfig(), TopicsConfig(above_brokers="clamp")


def code_of(asked: Asked, config: TopicsConfig = REFUSE) -> ErrorCode:
    with pytest.raises(KafkaError) as error:
        shape_of(asked, DEFAULTS, config, ONE)
    assert error.value.detail
    return error.value.code


@pytest.mark.parametrize(
    ("asked", "shape"),
    [
        (Asked(-1, -1, {}), Shape(3, 1)),
        (Asked(5, -1, {}), Shape(5, 1)),
        (Asked(-1, 1, {}), Shape(3, 1)),
        (Asked(-1, -1, {0: (1,), 1: (1,)}), Shape(2, 1)),
        (Asked(10_000, 1, {}), Shape(10_000, 1)),
    ],
)
def test_sizes(asked: Asked, shape: Shape) -> None:
    assert shape_of(asked, DEFAULTS, REFUSE, ONE) == shape


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        (Asked(0, 1, {}), ErrorCode.INVALID_PARTITIONS),
        (Asked(-2, 1, {}), ErrorCode.INVALID_PARTITIONS),
        (Asked(10_001, 1, {}), ErrorCode.POLICY_VIOLATION),
        (Asked(1, 0, {}), ErrorCode.INVALID_REPLICATION_FACTOR),
        (Asked(1, -2, {}), ErrorCode.INVALID_REPLICATION_FACTOR),
        (Asked(0, 0, {}), ErrorCode.INVALID_REPLICATION_FACTOR),
        (Asked(1, 3, {}), ErrorCode.INVALID_REPLICATION_FACTOR),
        (Asked(1, -1, {0: (1,)}), ErrorCode.INVALID_REQUEST),
        (Asked(-1, 1, {0: (1,)}), ErrorCode.INVALID_REQUEST),
        (Asked(-1, -1, {1: (1,)}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (Asked(-1, -1, {0: (1,), 2: (1,)}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (Asked(-1, -1, {0: ()}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (Asked(-1, -1, {0: (2,)}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (Asked(-1, -1, {0: (1, 1)}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
def test_refusals(asked: Asked, code: ErrorCode) -> None:
    assert code_of(asked) is code


def test_too_many_replicas_can_be_clamped() -> None:
    assert shape_of(Asked(2, 3, {}), DEFAULTS, CLAMP, ONE) == Shape(2, 1)
    assert shape_of(Asked(2, 3, {}), DEFAULTS, CLAMP, Nodes((1,), 2)) == Shape(2, 2)
    assert code_of(Asked(2, 0, {}), CLAMP) is ErrorCode.INVALID_REPLICATION_FACTOR


def test_copies_are_counted_in_bookies_not_in_brokers() -> None:
    assert shape_of(Asked(2, 3, {}), DEFAULTS, REFUSE, Nodes((1,), 3)) == Shape(2, 3)
    with pytest.raises(KafkaError, match=r"only 3 bookie\(s\) are registered") as error:
        shape_of(Asked(2, 4, {}), DEFAULTS, REFUSE, Nodes((1, 2, 3, 4), 3))
    assert error.value.code is ErrorCode.INVALID_REPLICATION_FACTOR
    with pytest.raises(KafkaError, match="only 0"):
        shape_of(Asked(2, 1, {}), DEFAULTS, CLAMP, Nodes((1,), 0))


def test_an_ensemble_that_cannot_be_formed() -> None:
    check_ensemble(3, 3)
    with pytest.raises(KafkaError, match="only 3") as error:
        check_ensemble(4, 3)
    assert error.value.code is ErrorCode.INVALID_REPLICATION_FACTOR


def test_uneven_assignments() -> None:
    with pytest.raises(KafkaError, match="not consistent"):
        check_assignment((1,), 2, (1, 2))


def test_assignments_of_added_partitions() -> None:
    check_new_assignments([(1,), (1,)], 2, 1, (1,))
    check_new_assignments([(1, 2), (3, 1)], 2, 2, (1, 2, 3))
    for assignments, new in (([(1,)], 2), ([(9,)], 1), ([()], 1), ([(1, 1)], 1)):
        with pytest.raises(KafkaError) as error:
            check_new_assignments(assignments, new, 1, (1,))
        assert error.value.code is ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_a_partition_may_be_made() -> None:
    check_new_partitions(1)
