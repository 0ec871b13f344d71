"""What bounds the memory of a process, as Linux shows it in files."""

import os
from pathlib import Path

import pytest

from tailrace.core.runtime.memory import memory_bytes

MACHINE = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
MIB = 1024 * 1024
UNLIMITED = "9223372036854771712\n"


def found(tmp_path: Path, membership: str, **limits: str) -> int:
    """Return what is found where files below the groups' root say so."""
    (tmp_path / "membership").write_text(membership)
    for name, text in limits.items():
        path = tmp_path / "groups" / name.replace("__", "/").replace("_dot_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return memory_bytes(tmp_path / "membership", tmp_path / "groups")


def test_without_groups_it_is_the_machines(tmp_path: Path) -> None:
    assert memory_bytes(tmp_path / "nothing", tmp_path) == MACHINE
    assert found(tmp_path, "0::/a/b\n") == MACHINE


@pytest.mark.parametrize("text", ["max\n", UNLIMITED, "\n"])
def test_a_group_without_a_limit_bounds_nothing(tmp_path: Path, text: str) -> None:
    assert found(tmp_path, "0::/\n", memory_dot_max=text) == MACHINE


def test_the_smallest_limit_on_the_way_counts(tmp_path: Path) -> None:
    limits = {"a__memory_dot_max": f"{96 * MIB}\n", "a__b__memory_dot_max": f"{128 * MIB}\n"}
    assert found(tmp_path, "0::/a/b\n", **limits) == 96 * MIB
    assert found(tmp_path, "0::/other\n") == MACHINE, "another group's is nobody else's"


def test_a_container_finds_its_group_at_the_root(tmp_path: Path) -> None:
    assert found(tmp_path, "0::/docker/1f\n", memory_dot_max=f"{64 * MIB}\n") == 64 * MIB


def test_the_older_hierarchy_counts_as_well(tmp_path: Path) -> None:
    membership = "12:cpu,cpuacct:/\n4:memory:/docker/1f\n0::/\n"
    name = "memory__memory_dot_limit_in_bytes"
    assert found(tmp_path, membership, **{name: f"{64 * MIB}\n"}) == 64 * MIB
    assert found(tmp_path, membership, **{name: UNLIMITED}) == MACHINE


def test_this_process_may_use_some() -> None:
    assert 64 * MIB < memory_bytes() <= MACHINE
