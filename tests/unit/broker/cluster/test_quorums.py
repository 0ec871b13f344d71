"""From a replication factor to E, Qw and Qa."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.broker.cluster.config_def import InvalidConfig
from tailrace.broker.cluster.quorums import check_quorums, check_same_quorums, quorums_of
from tailrace.broker.cluster.settings import TopicDefaults
from tailrace.core.log.config import LogConfig
from tailrace.core.log.overrides import with_overrides

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
        (3, {"tailrace.min.regions.for.durability": "1"}, "3/3/2"),
        (3, {"tailrace.min.regions.for.durability": "2"}, "3/3/3"),
        (4, {"tailrace.min.regions.for.durability": "2"}, "4/4/3"),
        (15, {"tailrace.min.regions.for.durability": "2"}, "15/15/9"),
        (3, {"tailrace.min.regions.for.durability": "3"}, "3/3/3"),
        (9, {"tailrace.min.regions.for.durability": "3"}, "9/9/7"),
    ],
)
def test_what_a_replication_factor_means(
    copies: int, configs: dict[str, str], quorums: str
) -> None:
    assert quorums_of(copies, DEFAULTS.resolve(configs)).text == quorums


@given(
    copies=st.integers(1, 20),
    ensemble=st.integers(1, 20) | st.just(-1),
    regions=st.integers(-1, 20),
)
def test_a_log_takes_whatever_comes_out(copies: int, ensemble: int, regions: int) -> None:
    configs = {
        "tailrace.ensemble.size": str(ensemble),
        "tailrace.min.regions.for.durability": str(min(regions, copies)),
    }
    quorums = quorums_of(copies, DEFAULTS.resolve(configs))
    config = with_overrides(LogConfig(), quorums.as_settings(), "t-0")
    assert (config.ensemble_size, config.write_quorum, config.ack_quorum) == quorums[:3]
    assert 2 * quorums.ack_quorum > quorums.write_quorum
    assert config.regions_min == (min(regions, copies) if regions >= 0 else None)


def check(copies: int, configs: dict[str, str], defaults: TopicDefaults = DEFAULTS) -> None:
    check_quorums(copies, configs, defaults.resolve(configs))


def test_what_contradicts_the_replication_factor() -> None:
    check(3, {"min.insync.replicas": "2", "tailrace.ensemble.size": "3"})
    with pytest.raises(InvalidConfig, match=r"replication factor of 3.*2 copies"):
        check(3, {"min.insync.replicas": "3"})
    with pytest.raises(InvalidConfig, match="at least the 3 copies"):
        check(3, {"tailrace.ensemble.size": "2"})
    with pytest.raises(InvalidConfig, match=r"factor of 3 is too low: .* 4 regions"):
        check(3, {"tailrace.min.regions.for.durability": "4"})


def test_a_brokers_default_of_min_insync_replicas_refuses_no_topic() -> None:
    check(1, {}, TopicDefaults({"min.insync.replicas": "2"}))


@pytest.mark.parametrize("name", ["tailrace.ensemble.size", "tailrace.min.regions.for.durability"])
def test_quorums_stay_as_they_were_made(name: str) -> None:
    three = DEFAULTS.resolve({name: "3"})
    check_same_quorums(three, three)
    with pytest.raises(InvalidConfig, match=f"{name} is said when a topic is created"):
        check_same_quorums(DEFAULTS.settings, three)
