"""The heap's limits change a process for good, so they are looked at in one of its own."""

import platform
import subprocess
import sys
from pathlib import Path

import pytest

HOUSE = Path(__file__).parents[4]

_CODE = """
import resource
from tailrace.core.runtime.heap import keep_freed_memory

def take_and_let_go():
    frames = [bytearray(64 * 1024) for _ in range(32)]

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

assert keep_freed_memory()
take_and_let_go()
before = faults()
for _ in range(50):
    take_and_let_go()
pages = 50 * 32 * 64 * 1024 // resource.getpagesize()
assert faults() - before < pages // 100, faults() - before
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc's heap can be told")
def test_frames_that_come_and_go_use_the_same_pages() -> None:
    subprocess.run([sys.executable, "-c", _CODE], cwd=HOUSE, timeout=60, check=True)
