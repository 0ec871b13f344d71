"""A number that only the processes of a cluster know: made once, in its metadata."""

import secrets
from typing import Final

from tailrace.core.errors import CorruptData, NodeExists
from tailrace.core.metadata.store import MetadataStore

SECRET_BYTES: Final = 32


async def cluster_secret(store: MetadataStore, path: str) -> bytes:
    """Return the secret at a path, making it on first use. Errors: CorruptData, Unavailable."""
    made = secrets.token_bytes(SECRET_BYTES)
    try:
        await store.create(path, made, parents=True)
    except NodeExists:
        made = (await store.get(path)).data
        if len(made) != SECRET_BYTES:
            raise CorruptData(f"{path} has {len(made)} bytes, not {SECRET_BYTES}") from None
    return made
