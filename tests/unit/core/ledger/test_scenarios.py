"""Scripts of what happens to a ledger's entries, line by line: `what happened -> what follows`.

    ensemble a b c, Qw 3, Qa 2    a new ledger              add          the next entry -> to whom
    ack ENTRY BOOKIE              -> confirmed A..B         fail ENTRY BOOKIE   -> stuck
    freeze                        a change begins           change a x c        it is installed
    lac, fragment, missing ENTRY, failed                    questions

A line without an arrow has no consequence; what follows "nothing" is its reason. To write the
consequences anew after a change that is meant: UPDATE_SCENARIOS=1 pytest this file, then read
the diff.
"""

import os
import re
from pathlib import Path

import pytest

from tailrace.core.ledger.quorum import WriteQuorumTracker
from tailrace.core.ledger.schedule import Schedule
from tailrace.protocol.ids import BookieId

SCRIPTS = sorted((Path(__file__).parent / "scenarios").glob("*.txt"))
ARROW = 20


class Scenario:
    tracker: WriteQuorumTracker

    def run(self, words: list[str]) -> str:
        return str(getattr(self, f"do_{words[0]}")(*words[1:]))

    def do_ensemble(self, *words: str) -> str:
        *bookies, write_quorum, ack_quorum = re.sub(r",|Qw|Qa", "", " ".join(words)).split()
        ensemble = tuple(map(BookieId, bookies))
        self.tracker = WriteQuorumTracker(Schedule(ensemble, int(write_quorum), int(ack_quorum)))
        return ""

    def do_add(self) -> str:
        entry_id = self.tracker.last_add + 1
        return f"{entry_id} to {' '.join(self.tracker.begin_add(entry_id))}"

    def do_ack(self, entry_id: str, bookie: str) -> str:
        return confirmed(self.tracker.on_ack(int(entry_id), BookieId(bookie)))

    def do_fail(self, entry_id: str, bookie: str) -> str:
        return "stuck" if self.tracker.on_failure(int(entry_id), BookieId(bookie)) else ""

    def do_freeze(self) -> str:
        self.tracker.freeze()
        return ""

    def do_change(self, *bookies: str) -> str:
        now = self.tracker.schedule
        ensemble = tuple(map(BookieId, bookies))
        return confirmed(
            self.tracker.on_ensemble_changed(Schedule(ensemble, now.write_quorum, now.ack_quorum))
        )

    def do_lac(self) -> int:
        return self.tracker.lac

    def do_fragment(self) -> int:
        return self.tracker.lac + 1

    def do_missing(self, entry_id: str) -> str:
        return " ".join(self.tracker.missing(int(entry_id)))

    def do_failed(self) -> str:
        return " ".join(self.tracker.failed_bookies())


def confirmed(entries: range) -> str:
    if not entries:
        return ""
    first, last = entries[0], entries[-1]
    return f"confirmed {first}" if first == last else f"confirmed {first}..{last}"


def as_run(script: str) -> str:
    """Return the script with the consequences that there are, kept as written where they agree."""
    scenario, lines = Scenario(), []
    for line in script.splitlines():
        what, _, expected = (part.strip() for part in line.partition("->"))
        if not what or what.startswith("#"):
            lines.append(line)
            continue
        found = scenario.run(what.split())
        if found == expected or (not found and expected.startswith("nothing")):
            lines.append(line)
        else:
            lines.append(f"{what:{ARROW}}-> {found}" if found else what)
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_script(path: Path) -> None:
    script = path.read_text(encoding="utf-8")
    found = as_run(script)
    if os.environ.get("UPDATE_SCENARIOS"):
        path.write_text(found, encoding="utf-8")
    assert found == script


def test_there_are_scripts() -> None:
    assert len(SCRIPTS) == 4
