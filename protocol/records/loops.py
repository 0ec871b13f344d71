"""The loops of `record_loops.py` in the form that runs here: compiled, or plain where it has to be.

The compiled form says which source it was made from. One that was made from another is not used:
so a checkout never runs what its files do not say. Pure, but for one look at the source.
"""

import importlib
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tailrace.protocol.errors import BadLength, BufferUnderflow, DecodeError
from tailrace.protocol.records import record_loops

COMPILED_NAME: Final = "tailrace.protocol.records._record_loops"
"""Made by hatch_build.py; it has `COMPILED_FROM` beside the loops."""


def _why_plain() -> str | None:
    try:
        compiled = importlib.import_module(COMPILED_NAME)
    except ImportError as error:
        return f"it cannot be loaded: {error}"
    if sha256(Path(record_loops.__file__).read_bytes()).hexdigest() != compiled.COMPILED_FROM:
        return "it was made from another version of its source"
    return None


WHY_PLAIN: Final = _why_plain()
"""Why the loops are not compiled, at a hundredth of the speed; None: they are."""

if TYPE_CHECKING:
    from tailrace.protocol.records.record_loops import check, fill, fold, newest_time, scan
else:
    _loops = record_loops if WHY_PLAIN else importlib.import_module(COMPILED_NAME)
    check, fill, fold = _loops.check, _loops.fill, _loops.fold
    newest_time, scan = _loops.newest_time, _loops.scan


def unreadable(fault: int, nth: int) -> DecodeError:
    """Return the error for what a loop found wrong in a batch's record `nth`."""
    kind = BufferUnderflow if fault == record_loops.CUT else BadLength
    return kind(f"record {nth}: {record_loops.FAULTS[fault]}")


__all__ = [
    "COMPILED_NAME",
    "WHY_PLAIN",
    "check",
    "fill",
    "fold",
    "newest_time",
    "scan",
    "unreadable",
]
