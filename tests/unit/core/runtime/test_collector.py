"""The collector's settings change a process for good, so they are looked at in one of its own."""

import subprocess
import sys
from pathlib import Path

HOUSE = Path(__file__).parents[4]

_CODE = """
import gc, weakref
from core.runtime.collector import YOUNG_OBJECTS_MAX, settle_collector

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


def test_garbage_is_found_late_but_found() -> None:
    subprocess.run([sys.executable, "-c", _CODE], cwd=HOUSE, timeout=60, check=True)
