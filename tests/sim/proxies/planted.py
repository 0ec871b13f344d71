"""Bugs to plant, to see that schedules of proxies find them: `python -m tests.sim.proxies.planted`.

Each takes the place of one function. A bug that no schedule finds says that the checker is blind.
"""

import argparse
import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any, Final
from unittest.mock import patch

from tailrace.core.errors import CoreError
from tailrace.core.ledger.quorum import WriteQuorumTracker
from tailrace.core.ledger.recovery_reads import RecoveryReads
from tailrace.protocol.bookkeeper.messages import ReadRequest
from tailrace.protocol.distributedlog.dlsn import DLSN
from tailrace.proxy.client.pending import RecordQueue
from tailrace.proxy.client.record_reader import RecordReader
from tailrace.proxy.owner import outcomes
from tailrace.proxy.owner.location import ProxyLocation
from tailrace.proxy.owner.numbered_writes import written_answer
from tailrace.proxy.owner.operations import WriteChain, answer_of
from tailrace.proxy.owner.refusals import Refusals
from tailrace.proxy.owner.writer_state import WriterState
from tailrace.proxy.reading.ring import Ring
from tests.sim.proxies.schedule import run_proxy_seed

_fencing_read = RecoveryReads._fencing_read
_add_refusal = Refusals.add
_take = RecordReader._take


def _read_without_fence(self: RecoveryReads, entry_id: int) -> ReadRequest:
    request = _fencing_read(self, entry_id)
    return ReadRequest(request.ledger_id, entry_id, priority=request.priority)


def _keep_for_ever(self: Refusals, stream: str, answer: Any, now_s: float, length_s: float) -> None:
    _add_refusal(self, stream, answer, now_s, length_s + 1e6)


def _found_for_all(written: Any, own: ProxyLocation) -> Any:
    if not written.cancelled() and isinstance(written.exception(), CoreError):
        return answer_of(written.exception(), own)
    return written_answer(written, own)


def _broke_and_nothing_is_written(self: RecordQueue) -> None:
    self._wait_again([])


def _wait_again_reversed(self: RecordQueue, first: list[Any]) -> None:
    while self.sent:
        self.waiting.extendleft(self.sent.pop().records)
    self.waiting.extendleft(reversed(first))


def _skip_to_next_entry(self: RecordReader, answer: Any) -> None:
    _take(self, answer)
    if self._last is not None:
        self._last = DLSN(self._last.lssn, self._last.entry_id + 1, -1)


def _take_all(self: RecordReader, answer: Any) -> None:
    _take(self, answer)
    if self._last is not None and len(self.ready) > 1:
        self._last = DLSN(self._last.lssn, self._last.entry_id, 0)


def _get_oldest_left(self: Ring, number: int) -> Any:
    at = max(0, number - self.base)
    return self._messages[at] if at < len(self._messages) else None


BUGS: Final[dict[str, tuple[Any, str, Callable[..., Any]]]] = {
    "recovery without fence": (RecoveryReads, "_fencing_read", _read_without_fence),
    "acknowledged by one bookie": (WriteQuorumTracker, "_suffice", lambda _, acks: bool(acks)),
    "redirects kept for ever": (Refusals, "add", _keep_for_ever),
    "FOUND for a record on its way": (outcomes, "written_answer", _found_for_all),
    "numbers are not recovered": (WriterState, "apply", lambda *_: None),
    "written behind a failed one": (WriteChain, "fail", lambda *_: None),
    "a broken call wrote nothing": (RecordQueue, "broke", _broke_and_nothing_is_written),
    "sent again in another order": (RecordQueue, "_wait_again", _wait_again_reversed),
    "a reader skips an entry's rest": (RecordReader, "_take", _skip_to_next_entry),
    "a slow reader gets the oldest left": (Ring, "get", _get_oldest_left),
    "a reader gets an entry twice": (RecordReader, "_take", _take_all),
}


@contextlib.contextmanager
def planted(name: str) -> Iterator[None]:
    """Have a bug, by its name, for as long as the block runs."""
    kind, method, bug = BUGS[name]
    with patch.object(kind, method, bug):
        yield


def hunt(name: str, seeds: range) -> tuple[int, str] | None:
    """Return the first seed that finds a planted bug, and what it says; None: none does."""
    with planted(name):
        for seed in seeds:
            if found := run_proxy_seed(seed).violations:
                return seed, str(found[0]).partition("\n")[0]
    return None


def main() -> int:
    """Hunt each bug, or those that are named."""
    parser = argparse.ArgumentParser(prog="python -m tests.sim.proxies.planted")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=40, help="how many at most for each")
    parser.add_argument("names", nargs="*", help=f"of {', '.join(BUGS)}; all without one")
    options = parser.parse_args()
    seeds = range(options.first, options.first + options.seeds)
    is_found = True
    for name in options.names or BUGS:
        found = hunt(name, seeds)
        is_found &= found is not None
        sys.stdout.write(f"{name}: {found}\n")
        sys.stdout.flush()
    return not is_found


if __name__ == "__main__":
    if os.environ.get("PYTHONHASHSEED") != "0":  # as tests.sim: sets of names are ordered by it
        again = [sys.executable, "-m", "tests.sim.proxies.planted", *sys.argv[1:]]
        os.execve(sys.executable, again, {**os.environ, "PYTHONHASHSEED": "0"})
    sys.exit(main())
