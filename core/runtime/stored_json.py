"""JSON that others wrote: in files and in the metadata store, and in what is asked over HTTP."""

from typing import Final

import msgspec

NOT_JSON: Final = (msgspec.DecodeError, ValueError, RecursionError)
"""What `msgspec.json` and `json` raise for bytes that do not decode.

ValueError: `json`'s own, a string that is not UTF-8, a number of more than 4,300 digits.
RecursionError: a thousand brackets, one in the other; msgspec follows those too that it skips.
"""
