"""What pages of `docs/` need around them."""

from collections.abc import Iterator

import pytest

from tests.cluster.three_bookies import ThreeBookies
from tests.zookeeper import ZooKeeperServer


@pytest.fixture(scope="module")
def cluster(
    zookeeper: ZooKeeperServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ThreeBookies]:
    """ZooKeeper and three bookies; the namespace is not bound."""
    with ThreeBookies(zookeeper, tmp_path_factory.mktemp("cluster")) as running:
        yield running
