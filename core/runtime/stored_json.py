"""JSON that lies in files and in the metadata store, and may have been damaged there."""

from typing import Final

import msgspec

NOT_JSON: Final = (msgspec.DecodeError, UnicodeDecodeError)
"""What `msgspec.json` raises for bytes that do not decode; the second: a string is no UTF-8."""
