"""Payloads that Java's side and ours make alike: entry e of seed s is SHA-256("s/e") repeated."""

import hashlib
from typing import Any


def payload(seed: int, entry_id: int, size: int) -> bytes:
    unit = hashlib.sha256(f"{seed}/{entry_id}".encode()).digest()
    return (unit * (size // len(unit) + 1))[:size]


def shown(seed: int, first: int, last: int, size: int) -> list[list[Any]]:
    """Return what Java's side shows of entries first..last of a ledger made with one `add`."""
    return [
        [
            entry_id,
            (entry_id + 1) * size,
            size,
            hashlib.sha256(payload(seed, entry_id, size)).hexdigest(),
        ]
        for entry_id in range(first, last + 1)
    ]
