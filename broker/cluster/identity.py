"""The id of this cluster: made once, the same for as long as its metadata lives."""

import base64
from random import Random

from tailrace.broker.cluster.paths import ClusterPaths
from tailrace.core.errors import NodeExists
from tailrace.core.metadata.store import MetadataStore


async def cluster_id(
    store: MetadataStore, random: Random, paths: ClusterPaths | None = None
) -> str:
    """Return the cluster's id, making it on first use.

    Shape: 22 characters of URL-safe base64, as Kafka's, never starting with a dash.
    """
    path = (paths or ClusterPaths()).cluster_id
    made = _new_id(random)
    try:
        await store.create(path, made.encode(), parents=True)
    except NodeExists:
        return (await store.get(path)).data.decode()
    return made


def _new_id(random: Random) -> str:
    while True:
        text = base64.urlsafe_b64encode(random.randbytes(16)).rstrip(b"=").decode()
        if not text.startswith("-"):
            return text
