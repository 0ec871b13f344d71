"""Which functions of the project are decoders: read from its sources, so a new one is found."""

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path
from types import CodeType
from typing import Any, Final, NamedTuple

from tests.rooms import OWN_PROCESSES, ROOT

ANYWHERE: Final = ("decode", "deserialize", "parse", "unpack")
"""How the name of a decoder begins, wherever it is."""
OF_BYTES: Final = (
    "check", "decompress", "expand", "fill", "fold", "frame_end", "from_bytes", "iter_", "open_",
    "payload_of", "read", "scan", "split_", "tagged_", "take_", "verify_", "walk",
)  # fmt: skip
"""And in these modules, which are about the form of bytes and nothing else."""
FORMATS: Final = (
    "protocol/",
    "bookie/entry_log_format.py",
    "bookie/group_format.py",
    "bookie/group_scan.py",
    "bookie/index_format.py",
    "bookie/index_sums.py",
    "bookie/journal_format.py",
    "bookie/record_scan.py",
    "broker/coordinator/records.py",
    "broker/transactions/records.py",
    "compaction/cleaner/columns.py",
    "compaction/cleaner/headers.py",
    "compaction/restoring/records.py",
    "core/log/cold/format.py",
    "core/log/entries.py",
    "core/log/owner_records.py",
    "core/metadata/layout.py",
    "core/metadata/segment_metadata.py",
    "core/metadata/underreplication.py",
)


class Decoder(NamedTuple):
    """A function that takes bytes apart."""

    module: str
    name: str
    """Dotted, inside its module."""

    @property
    def code(self) -> CodeType:
        """What runs when it is called."""
        found: Any = importlib.import_module(self.module)
        for part in self.name.split("."):
            found = getattr(found, part)
        found = found.fget if isinstance(found, property) else getattr(found, "__wrapped__", found)
        code: CodeType = found.__code__
        return code

    def __str__(self) -> str:
        return f"{self.module}.{self.name}"


def decoders() -> list[Decoder]:
    """Return all of them, in order."""
    return [
        Decoder(".".join(("tailrace", *path.relative_to(ROOT).with_suffix("").parts)), name)
        for package in OWN_PROCESSES
        for path in sorted((ROOT / package).rglob("*.py"))
        for name in _functions(ast.parse(path.read_text(encoding="utf-8")), "")
        if _is_decoder(path, name.rpartition(".")[2])
    ]


def _is_decoder(path: Path, name: str) -> bool:
    is_format = str(path.relative_to(ROOT)).startswith(FORMATS)
    return name.startswith(ANYWHERE) or (is_format and name.startswith(OF_BYTES))


def _functions(node: ast.AST, prefix: str) -> Iterator[str]:
    """Yield public functions and methods of public classes; coroutines take no bytes apart."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef) and not child.name.startswith("_"):
            yield prefix + child.name
        elif isinstance(child, ast.ClassDef) and not child.name.startswith("_"):
            yield from _functions(child, f"{prefix}{child.name}.")
