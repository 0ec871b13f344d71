"""The collector's settings change a process for good, so they are looked at in one of its own."""

import subprocess
import sys
from pathlib import Path

HOUSE = Path(__file__).parents[4]

_SETTLED = """
import gc, weakref
from tailrace.core.runtime.collector import YOUNG_OBJECTS_MAX, settle_collector

class Ring:
    def __init__(self):
        self.itself = self

settle_collector()
assert gc.get_freeze_count() > 1000, gc.get_freeze_count()
ring = weakref.ref(Ring())
kept = [[] for _ in range(YOUNG_OBJECTS_MAX // 2)]
assert ring() is not None, "looked for too early"
kept += [[] for _ in range(YOUNG_OBJECTS_MAX)]
assert ring() is None, "never found"
"""


_LOADED = """
import gc
from tailrace.core.runtime.collector import loading_modules

looks = []
gc.callbacks.append(lambda phase, info: looks.append(phase))
with loading_modules():
    kept = [[] for _ in range(100_000)]
assert not looks, looks
assert gc.isenabled()
assert gc.get_freeze_count() > 100_000, gc.get_freeze_count()
try:
    with loading_modules():
        import no_such_module
except ModuleNotFoundError:
    pass
assert gc.isenabled(), "not after a module that does not load"
"""


def _run(code: str) -> None:
    subprocess.run([sys.executable, "-c", code], cwd=HOUSE, timeout=60, check=True)


def test_garbage_is_found_late_but_found() -> None:
    _run(_SETTLED)


def test_nobody_looks_while_modules_load() -> None:
    _run(_LOADED)
