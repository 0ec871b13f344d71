"""How `tailrace ledger read` prints an entry."""

import json
import sys

from tailrace.protocol.bookkeeper.entry import Entry

_PREVIEW_BYTES = 48


class EntryPrinter:
    """Prints entries as lines, as JSON lines, or as they are."""

    def __init__(self, *, raw: bool, as_json: bool) -> None:
        self._print = self._raw if raw else self._json if as_json else self._line

    def show(self, entry: Entry) -> None:
        """Print one entry."""
        self._print(entry)

    def _raw(self, entry: Entry) -> None:
        sys.stdout.buffer.write(entry.payload)

    def _json(self, entry: Entry) -> None:
        facts = {"entry": entry.entry_id, "lac": entry.lac, "length": entry.length}
        print(json.dumps({**facts, "payload": bytes(entry.payload).hex()}))

    def _line(self, entry: Entry) -> None:
        payload = bytes(entry.payload[:_PREVIEW_BYTES])
        more = "..." if len(entry.payload) > _PREVIEW_BYTES else ""
        text = payload.decode("ascii", "backslashreplace")
        shown = text if text.isprintable() else payload.hex(" ")
        print(f"{entry.entry_id:>8}  lac {entry.lac:<8} {len(entry.payload):>8} B  {shown}{more}")
