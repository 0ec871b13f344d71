"""Every sink against a dict; Parquet's files stopped at every step."""

import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow.dataset
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tailrace.compaction.restoring.checkpoint import Checkpoint
from tailrace.compaction.restoring.digest import Live, live_state
from tailrace.compaction.restoring.errors import WrongCheckpoint
from tailrace.compaction.restoring.fold import Progress
from tailrace.compaction.restoring.records import Changes
from tailrace.compaction.restoring.sinks.parquet import ParquetSink
from tailrace.compaction.restoring.sinks.sink import Sink
from tailrace.compaction.restoring.sinks.spill import Spill
from tailrace.core.runtime.files import SystemFiles
from tailrace.restore import CallbackSink, DictSink, SqliteSink

Saves = list[dict[int, Changes]]
Values = dict[int, dict[bytes, bytes]]

_keys = st.binary(max_size=2)
_changes = st.dictionaries(_keys, st.none() | st.binary(max_size=40), max_size=20)
saves = st.lists(st.dictionaries(st.sampled_from([0, 3]), _changes, min_size=1), max_size=5)


def checkpoint() -> Checkpoint:
    partitions = {each: Progress(start=0, end=100, position=0) for each in (0, 3)}
    return Checkpoint(topic="t", topic_id="00", partitions=partitions)


def fold(all_saves: Saves) -> Values:
    values: Values = {0: {}, 3: {}}
    for changes in all_saves:
        for partition, some in changes.items():
            for key, value in some.items():
                values[partition].pop(key, None)
                if value is not None:
                    values[partition][key] = value
    return values


def states(values: Values) -> dict[int, Live]:
    return {partition: live_state(some.items()) for partition, some in values.items()}


def go_on(sink: Sink, all_saves: Saves) -> dict[int, Live]:
    """Save what the sink has not saved yet, as a restore does after a crash, and finish."""
    at = sink.load()
    if at is None:
        at = checkpoint()
        sink.save({}, at)
    for number, changes in enumerate(all_saves[at.saves :], at.saves + 1):
        at.saves = number
        at.partitions[0].position = number
        sink.save(changes, at)
    return sink.finish(at)


def of_parquet(folder: Path) -> Values:
    values: Values = {0: {}, 3: {}}
    for row in pyarrow.dataset.dataset(folder, partitioning="hive").to_table().to_pylist():
        assert values[row["partition"]].setdefault(row["key"], row["value"]) == row["value"]
    return values


_own_folder = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)


@_own_folder
@given(all_saves=saves)
def test_each_sink_is_a_dict(all_saves: Saves, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("sinks")
    told: Values = {0: {}, 3: {}}

    def tell(partition: int, changes: Mapping[bytes, bytes | None]) -> None:
        for key, value in changes.items():
            told[partition].pop(key, None)
            if value is not None:
                told[partition][key] = value

    in_memory = DictSink()
    sinks: list[Sink] = [
        in_memory,
        SqliteSink(folder / "values.db"),
        CallbackSink(tell, folder / "digests.db"),
        ParquetSink(folder / "parquet", bucket_bytes=300),
    ]
    expected = fold(all_saves)
    for sink in sinks:
        assert go_on(sink, all_saves) == states(expected), type(sink)
        assert go_on(sink, all_saves) == states(expected), "finished again"
        sink.close()
    assert told == expected
    assert in_memory.values == expected
    assert of_parquet(folder / "parquet") == expected
    with closing(sqlite3.connect(folder / "values.db")) as database:
        rows = database.execute("SELECT partition, key, value FROM restored").fetchall()
    assert {(p, k): v for p, k, v in rows} == {
        (p, k): v for p, some in expected.items() for k, v in some.items()
    }


class Stopped(Exception):
    """The process ended here."""


class StoppingFiles(SystemFiles):
    """Ends at step `stop`; a write then leaves half of what it was given."""

    def __init__(self, stop: int) -> None:
        self.steps = 0
        self.stop = stop

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if name not in _STEPS:
            return found

        def step(*arguments: Any) -> Any:
            self.steps += 1
            if self.steps == self.stop:
                if name == "write_at":
                    fd, parts, position = arguments
                    found(fd, parts[: len(parts) // 2], position)
                raise Stopped
            return found(*arguments)

        return step


_STEPS = {"open", "write_at", "sync", "replace", "remove", "make_directory", "sync_directory"}

_CRASHED: Saves = [
    {0: {b"a": b"1", b"b": b"2"}, 3: {b"x": b"y" * 500}},
    {0: {b"a": None, b"c": b"3"}},
    {3: {b"x": b"z", b"w": b""}},
]


def test_parquet_goes_on_from_every_step(tmp_path: Path) -> None:
    whole = StoppingFiles(0)
    with closing(ParquetSink(tmp_path / "whole", files=whole)) as sink:
        go_on(sink, _CRASHED)
    assert whole.steps > 40
    for stop in range(1, whole.steps + 1):
        folder = tmp_path / str(stop)
        with pytest.raises(Stopped):
            _run(lambda stop=stop, folder=folder: ParquetSink(folder, files=StoppingFiles(stop)))
        with closing(ParquetSink(folder)) as sink:
            assert go_on(sink, _CRASHED) == states(fold(_CRASHED)), stop
        assert of_parquet(folder) == fold(_CRASHED), stop
        left = {path.name for path in (folder / "_restore").iterdir()}
        assert left <= {"checkpoint.json", "checkpoint.json.new", "lock"}, stop


def _run(make: Callable[[], ParquetSink]) -> None:
    with closing(make()) as sink:
        go_on(sink, _CRASHED)


@pytest.fixture
def spilled(tmp_path: Path) -> Iterator[Path]:
    """A folder of a Parquet restore that was cut off before its end."""
    with closing(ParquetSink(tmp_path / "out")) as sink:
        at = checkpoint()
        for number, changes in enumerate(_CRASHED, 1):
            at.saves = number
            sink.save(changes, at)
    return tmp_path / "out"


def test_a_missing_or_cut_file_is_named(spilled: Path) -> None:
    path = spilled / "_restore" / "save-00000002"
    whole = path.read_bytes()
    for left in (None, b"", whole[:3], whole[:-5], whole[5:]):
        path.unlink(missing_ok=True)
        if left is not None:
            path.write_bytes(left)
        with closing(ParquetSink(spilled)) as sink, pytest.raises(WrongCheckpoint) as caught:
            go_on(sink, _CRASHED)
        assert caught.value.place == str(path)
        assert "--fresh" in caught.value.remedy


def test_one_restore_at_a_time(spilled: Path, tmp_path: Path) -> None:
    with closing(ParquetSink(spilled)), pytest.raises(WrongCheckpoint, match="in use by process"):
        ParquetSink(spilled)


def test_clearing_forgets_everything(spilled: Path, tmp_path: Path) -> None:
    with closing(ParquetSink(spilled)) as sink:
        go_on(sink, _CRASHED)
        sink.clear()
        assert sink.load() is None
        assert go_on(sink, []) == states({0: {}, 3: {}})
    with closing(SqliteSink(tmp_path / "values.db")) as sink:
        go_on(sink, _CRASHED)
        sink.clear()
        assert sink.load() is None
        assert go_on(sink, []) == states({0: {}, 3: {}})


def test_a_file_of_something_else_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("not a database " * 100)
    with pytest.raises(WrongCheckpoint, match="SQLite cannot use the file"):
        SqliteSink(path)
    assert path.read_text().startswith("not a database")


def test_the_memory_of_a_dict_sink_is_not_that_of_who_saved() -> None:
    sink = DictSink()
    at = checkpoint()
    sink.save({0: {b"a": b"1"}}, at)
    at.partitions[0].position = 77  # folded, never saved
    loaded = sink.load()
    assert loaded is not None
    assert loaded.partitions[0].position == 0


def test_a_bucket_larger_than_memory_is_folded_in_even_turns(tmp_path: Path) -> None:
    spill = Spill(SystemFiles(), tmp_path)
    changes: Changes = {b"%d" % number: b"v" for number in range(20_000)}
    spill.write(1, {0: changes})
    for blocks in spill.blocks(0, 1).values():
        (block,) = blocks
        parts = [spill.fold(blocks, turn, 4) for turn in range(4)]
        assert sum(map(len, parts)) == len(set().union(*parts)) == block.records
        assert max(map(len, parts)) < block.records / 2
