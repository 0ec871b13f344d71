"""The collector's settings change a process for good, so they are looked at in one of its own."""

import subprocess
import sys
from pathlib import Path

HOUSE = Path(__file__).parents[4]

_SETTLED = """
import asyncio, gc, weakref
from tailrace.core.runtime.collector import YOUNG_OBJECTS_MAX, settle_collector

class Ring:
    def __init__(self):
        self.itself = self

async def main():
    settle_collector()
    assert gc.get_freeze_count() > 1000, gc.get_freeze_count()
    ring = weakref.ref(Ring())
    kept = [[] for _ in range(YOUNG_OBJECTS_MAX // 2)]
    assert ring() is not None, "looked for too early"
    kept += [[] for _ in range(YOUNG_OBJECTS_MAX)]
    assert ring() is None, "never found"

asyncio.run(main())
"""

_AGED = """
import asyncio, gc, sys, weakref
from tailrace.core.runtime import collector

STEP = 2_000

class Ring:
    def __init__(self):
        self.itself = self

async def main():
    collector.OLD_OBJECTS_MIN = 400_000
    collector.settle_collector()
    old, kept = [Ring() for _ in range(1_000)], []
    seen = []
    gc.callbacks.append(lambda phase, info: seen.append(info["generation"]))

    async def grow(objects):
        for _ in range(objects // STEP):
            kept.extend([] for _ in range(STEP))
            await asyncio.sleep(0)

    await grow(200_000)
    assert len(gc.get_objects()) < 12 * collector.YOUNG_OBJECTS_MAX, "what is old is looked at"
    assert 2 not in seen, "a look at all, below the limit"
    ring = weakref.ref(old[0])
    old.clear()
    assert ring() is not None
    await grow(450_000)
    assert ring() is None, "what became garbage when it was old stays for ever"
    assert seen.count(2) == 2, (seen.count(2), "begin and end of one")
    assert len(gc.get_objects()) < 12 * collector.YOUNG_OBJECTS_MAX
    seen.clear()
    await grow(100_000)
    assert 2 not in seen, "twice as many may be there as the last look left"

if sys.version_info < (3, 14):
    asyncio.run(main())
"""


_REPLACED = """
import asyncio, gc, sys
from tailrace.core.runtime.collector import YOUNG_OBJECTS_MAX, settle_collector

async def main():
    settle_collector()
    kept = [[] for _ in range(50_000)]
    gc.collect()
    early = []

    def note(phase, info):
        if phase == "start" and gc.get_count()[0] <= YOUNG_OBJECTS_MAX:
            early.append(info["generation"])

    gc.callbacks.append(note)
    at = 0
    while not early:
        for at in range(at, at + 1_000):
            kept[at % len(kept)] = []
        await asyncio.sleep(0)
    assert early == [0], early

if sys.version_info < (3, 14):
    asyncio.run(main())
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


def test_what_is_old_is_looked_at_only_when_it_has_doubled() -> None:
    _run(_AGED)


def test_new_objects_are_looked_at_though_as_many_are_freed() -> None:
    _run(_REPLACED)


def test_nobody_looks_while_modules_load() -> None:
    _run(_LOADED)
