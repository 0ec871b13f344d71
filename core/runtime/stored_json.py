"""JSON that others wrote: in files and in the metadata store, and in what is asked over HTTP."""

from typing import Annotated, Final, TypeAlias

import msgspec

from tailrace.core.runtime.decimal_text import INT32_MAX, INT64_MAX

Int32: TypeAlias = Annotated[int, msgspec.Meta(ge=-INT32_MAX - 1, le=INT32_MAX)]
Natural: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=INT64_MAX)]
"""A number that a field may hold: msgspec itself takes any, and nothing behind it takes those."""

NOT_JSON: Final = (msgspec.DecodeError, ValueError, RecursionError)
"""What `msgspec.json` and `json` raise for bytes that do not decode.

ValueError: `json`'s own, a string that is not UTF-8, a number of more than 4,300 digits.
RecursionError: a thousand brackets, one in the other; msgspec follows those too that it skips.
"""
