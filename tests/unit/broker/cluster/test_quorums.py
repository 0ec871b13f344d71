"""From a replication factor to E, Qw and Qa."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.cluster.config_def import InvalidConfig
from broker.cluster.quorums import check_quorums, check_same_ensemble, quorums_of
from broker.cluster.settings import TopicDefaults
from core.log.config import LogConfig
from core.log.overrides import with_overrides

DEFAULTS = TopicDefaults({})


@pytest.mark.parametrize(
    ("copies", "configs", "quorums"),
    [
        (1, {}, "1/1/1"),
        (2, {}, "2/2/2"),
        (3, {}, "3/3/2"),
        (5, {}, "5/5/3"),
        (3, {"tailrace.ensemble.size": "5"}, "5/3/2"),
        (3, {"tailrace.ensemble.size": "2"}, "3/3/2"),
    ],
)
def test_what_a_replication_factor_means(
    copies: int, configs: dict[str, str], quorums: str
) -> None:
    assert quorums_of(copies, DEFAULTS.resolve(configs)).text == quorums


@given(copies=st.integers(1, 20), ensemble=st.integers(1, 20) | st.just(-1))
def test_a_log_takes_whatever_comes_out(copies: int, ensemble: int) -> None:
    quorums = quorums_of(copies, DEFAULTS.resolve({"tailrace.ensemble.size": str(ensemble)}))
    config = with_overrides(LogConfig(), quorums.as_settings(), "t-0")
    assert (config.ensemble_size, config.write_quorum, config.ack_quorum) == quorums
    assert 2 * quorums.ack_quorum > quorums.write_quorum


def check(copies: int, configs: dict[str, str], defaults: TopicDefaults = DEFAULTS) -> None:
    check_quorums(copies, configs, defaults.resolve(configs))


def test_what_contradicts_the_replication_factor() -> None:
    check(3, {"min.insync.replicas": "2", "tailrace.ensemble.size": "3"})
    with pytest.raises(InvalidConfig, match=r"replication factor of 3.*2 copies"):
        check(3, {"min.insync.replicas": "3"})
    with pytest.raises(InvalidConfig, match="at least the 3 copies"):
        check(3, {"tailrace.ensemble.size": "2"})


def test_a_brokers_default_of_min_insync_replicas_refuses_no_topic() -> None:
    check(1, {}, TopicDefaults({"min.insync.replicas": "2"}))


def test_the_ensemble_stays_as_it_was_made() -> None:
    three = DEFAULTS.resolve({"tailrace.ensemble.size": "3"})
    check_same_ensemble(three, three)
    with pytest.raises(InvalidConfig, match="when a topic is created"):
        check_same_ensemble(DEFAULTS.settings, three)
