"""Where a cluster's nodes lie."""

from tailrace.broker.cluster.paths import ClusterPaths
from tailrace.core.log.names import is_reserved


def test_a_standalone_store_is_the_clusters_own() -> None:
    paths = ClusterPaths()
    assert paths.topic("t") == "/tailrace/topics/t"
    assert paths.broker(7) == "/tailrace/brokers/ids/7"


def test_in_a_namespace_nothing_is_taken_for_a_log() -> None:
    paths = ClusterPaths.of_namespace("/messaging/orders")
    child = paths.topics.removeprefix("/messaging/orders/").partition("/")[0]
    assert is_reserved(child)
    assert all(
        path.startswith(f"/messaging/orders/{child}/")
        for path in (paths.topics, paths.brokers, paths.cluster_id, paths.producer_ids)
    )
