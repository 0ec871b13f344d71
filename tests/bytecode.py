"""The tests' bytecode, which the workers of a run make together.

Rewriting assertions takes most of a first collection, and each worker would do it for every file.
"""

import sys
from collections.abc import Iterator
from contextlib import suppress
from importlib.machinery import SourceFileLoader
from pathlib import Path

import pytest
from _pytest.assertion import rewrite


def make_share(config: pytest.Config) -> None:
    """Make what is missing of this worker's share; whatever it lacks at collection it makes then.

    Nobody waits for the others: they have as much to do.
    """
    worker = getattr(config, "workerinput", None)
    if worker is None or sys.dont_write_bytecode:
        return
    number, count = int(worker["workerid"].removeprefix("gw")), worker["workercount"]
    for file in _by_size(config)[number::count]:
        with suppress(SyntaxError):  # which collection tells, with its place
            _make(file, config)


def _by_size(config: pytest.Config) -> list[Path]:
    """Return the files that are collected and those beside them, the largest first."""
    asked = [config.invocation_params.dir / each.partition("::")[0] for each in config.args]
    files = {file for each in asked for file in _sources(each)}
    return sorted(files, key=lambda file: (-file.stat().st_size, file))


def _sources(asked: Path) -> Iterator[Path]:
    return iter([asked]) if asked.is_file() else asked.rglob("*.py")


def _make(file: Path, config: pytest.Config) -> None:
    """Do as pytest does when it imports a test, and as Python does when it imports a module."""
    if not file.name.startswith("test_"):
        SourceFileLoader(file.stem, str(file)).get_code(file.stem)
        return
    folder = rewrite.get_cache_dir(file)
    target = folder / (file.stem + rewrite.PYC_TAIL)
    if rewrite.try_makedirs(folder) and rewrite._read_pyc(file, target) is None:
        source_hash, code = rewrite._rewrite_test(file, config)
        state = config.stash[rewrite.assertstate_key]
        rewrite._write_pyc(state, code, source_hash, target)
