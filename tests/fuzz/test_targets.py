"""Every target: what is kept, its seeds, and damaged copies of them; and no decoder without one."""

from typing import Final

import pytest

from tests.fuzz.corpus import BYTES_MAX, FOLDER, kept, reached, starting_points
from tests.fuzz.coverage import Counted
from tests.fuzz.decoders import decoders
from tests.fuzz.judge import judge_steps
from tests.fuzz.mutation import mutants
from tests.fuzz.target import Target
from tests.fuzz.targets import TARGETS

MUTANTS: Final = 100
SEED: Final = 34

_ASKED: Final = "what an operator asks for or configures, a word at a time"
EXCUSED: Final = {
    "tailrace.bookie.entry_log_format.split_location": "takes a number apart, no bytes",
    "tailrace.tools.endpoints.parse_endpoint": _ASKED,
    "tailrace.tools.records.offset_spec.parse_offset": _ASKED,
    "tailrace.tools.logs.position_spec.parse_dlsn": _ASKED,
    "tailrace.tools.logs.position_spec.parse_partition": _ASKED,
    "tailrace.tools.logs.position_spec.parse_position": _ASKED,
    "tailrace.broker.config.NetworkConfig.parsed_advertised": _ASKED,
    "tailrace.broker.config.NetworkConfig.parsed_listeners": _ASKED,
    "tailrace.broker.listeners.parse_protocols": _ASKED,
    "tailrace.compaction.restoring.cluster.parse_bootstrap": _ASKED,
    "tailrace.core.metadata.zookeeper_config.parse_users": _ASKED,
    "tailrace.proxy.client.targets.parse_host": _ASKED,
    "tailrace.proxy.client.targets.parse_target": _ASKED,
    "tailrace.core.metadata.kazoo_reads.MultiRead.deserialize": (
        "called by kazoo, which hands its errors on"
    ),
    "tailrace.core.metadata.layout.LedgerPaths.read_only_bookie": "makes a path",
    "tailrace.core.metadata.network_location.parse_table": _ASKED,
    "tailrace.core.metadata.uri.parse_namespace_uri": _ASKED,
    "tailrace.core.metadata.uri.parse_servers": _ASKED,
    "tailrace.core.metadata.uri.parse_uri": _ASKED,
}
"""Functions that are named like decoders, and why no target reaches them."""

of_each = pytest.mark.parametrize("target", TARGETS.values(), ids=str)


@of_each
def test_what_is_kept_and_the_seeds_hold(target: Target) -> None:
    counted = Counted()
    results = [judge_steps(target, data, counted) for data in starting_points(target)]
    assert None in results, "no seed decodes"


@of_each
def test_damaged_inputs_hold(target: Target) -> None:
    inputs = starting_points(target)
    counted = Counted()
    for data in mutants(inputs, MUTANTS, SEED, target.bytes_max, target.dictionary):
        judge_steps(target, data, counted)


def test_every_decoder_has_a_target() -> None:
    """By running, not by name: what the seeds and the kept inputs of all targets call."""
    counted = Counted()
    for target in TARGETS.values():
        for data in starting_points(target):
            reached(target, data, counted)
    ran = {code for code, _, _ in counted.edges}
    missed = {str(each) for each in decoders() if each.code not in ran}
    assert sorted(missed - EXCUSED.keys()) == [], "without a target"
    assert sorted(EXCUSED.keys() - missed) == [], "excused without need"


def test_what_is_kept_is_small_and_of_a_target() -> None:
    assert {path.stem for path in FOLDER.glob("*.hex")} <= TARGETS.keys()
    for target in TARGETS.values():
        assert sum(map(len, kept(target))) <= BYTES_MAX, target.name
