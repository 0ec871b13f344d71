"""The cookie: proof that these directories are this bookie's. Source: reference BookKeeper 3.8.

A bookie that lost a disk must not come back under its id and deny what it promised. So: all
directories are empty and no cookie is known anywhere, or all of them carry the same one.
Kept from Java: the text and the rules on lost directories, ids and instances. Not kept: equality of
paths, because moving a data directory as a whole loses nothing; how many ledger directories there
are is compared, because leaving one out denies what is in it.
"""

import re
from typing import NamedTuple

from tailrace.core.metadata.text_proto import escape, unescape
from tailrace.protocol.errors import BadValue

FILE_NAME = "VERSION"
LAYOUT_VERSION = 5

_FIELD = re.compile(r'^(\w+): "((?:[^"\\]|\\.)*)"$')


class Cookie(NamedTuple):
    """Who owns a directory."""

    bookie_id: str
    journal_directory: str
    ledger_directories: tuple[str, ...]
    instance_id: str = ""
    """Id of the cluster's metadata; empty without one."""

    def is_same_bookie(self, other: "Cookie") -> bool:
        """Return whether both name one bookie of one cluster."""
        return (self.bookie_id, self.instance_id) == (other.bookie_id, other.instance_id)


def format_cookie(cookie: Cookie) -> bytes:
    """Return the text that Java writes: layout version, then protobuf's text format."""
    count = len(cookie.ledger_directories)
    fields = [
        ("bookieHost", cookie.bookie_id),
        ("journalDir", cookie.journal_directory),
        ("ledgerDirs", "\t".join((str(count), *cookie.ledger_directories))),
    ]
    if cookie.instance_id:
        fields.append(("instanceId", cookie.instance_id))
    lines = [f'{name}: "{escape(value.encode())}"\n' for name, value in fields]
    return f"{LAYOUT_VERSION}\n{''.join(lines)}".encode()


def parse_cookie(data: bytes) -> Cookie:
    """Read such a text; unknown fields are ignored. Errors: BadValue."""
    try:
        version, *lines = data.decode("utf-8").rstrip("\n").split("\n")
    except ValueError:
        raise BadValue("a cookie that is empty or not text") from None
    if version != str(LAYOUT_VERSION):
        raise BadValue(f"a cookie of layout version {version!r}, not {LAYOUT_VERSION}")
    fields: dict[str, str] = {}
    for line in lines:
        match = _FIELD.match(line)
        if match:
            fields[match[1]] = unescape(match[2]).decode("utf-8", "replace")
    if "bookieHost" not in fields:
        raise BadValue("a cookie without bookieHost")
    directories = fields.get("ledgerDirs", "0").split("\t")[1:]
    return Cookie(
        fields["bookieHost"],
        fields.get("journalDir", ""),
        tuple(directories),
        fields.get("instanceId", ""),
    )
