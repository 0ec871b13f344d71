"""How large the entries of a ledger may be: what its writer asked for, and its bookies take.

Every bookie takes entries of `MAX_ENTRY_BYTES`, in frames of BookKeeper's default size. A ledger
that may have larger ones says so in its custom metadata, and only bookies whose frames are as large
(nettyMaxFrameSizeBytes in their registration) are chosen for it: by its writer, in recovery, and
when copies are made again. One that says nothing takes any bookie. Java's bookies do not publish
what they take, so none of them is chosen for large entries. Pure.
"""

from collections.abc import Mapping
from typing import Final

from tailrace.core.errors import CorruptData
from tailrace.core.runtime.decimal_text import decimal
from tailrace.protocol.bookkeeper.entry import ENTRY_BYTES_LIMIT, MAX_ENTRY_BYTES

LIMIT_KEY: Final = "tailraceEntryBytesMax"
"""Key of a ledger's custom metadata; the value is a decimal number of bytes of an entry's body."""
_SAID_MAX: Final = 10**12 - 1


def with_entry_limit(custom: Mapping[str, bytes], bytes_max: int) -> dict[str, bytes]:
    """Return a new ledger's custom metadata; what every bookie takes need not be said."""
    if bytes_max <= MAX_ENTRY_BYTES:
        return dict(custom)
    return {**custom, LIMIT_KEY: b"%d" % bytes_max}


def entry_limit_of(custom: Mapping[str, bytes]) -> int:
    """Return the largest body that an entry of a ledger may have, in bytes.

    Errors: CorruptData for what is not such a number.
    """
    value = custom.get(LIMIT_KEY)
    if value is None:
        return MAX_ENTRY_BYTES
    limit = decimal(value.decode("ascii", "replace"), _SAID_MAX)
    if limit is None:
        raise CorruptData(f"custom metadata {LIMIT_KEY} is {value!r}, not a number of bytes")
    return min(max(limit, MAX_ENTRY_BYTES), ENTRY_BYTES_LIMIT)


def has_large_entries(custom: Mapping[str, bytes]) -> bool:
    """Tell whether a ledger may have entries that not every bookie takes. Errors: CorruptData."""
    return entry_limit_of(custom) > MAX_ENTRY_BYTES
