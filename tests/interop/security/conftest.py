"""One broker for all tests of this folder, which one worker runs."""

from collections.abc import Iterator

import pytest

from tests.interop.security.doors import SecuredBroker


@pytest.fixture(scope="package")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    """The broker; its user and ACLs are there. What it prints has none of their secrets."""
    broker = SecuredBroker(tmp_path_factory.mktemp("secured"))
    try:
        broker.start()
        yield broker
    finally:
        broker.process.close()
    for secret in broker.secrets():
        assert secret not in broker.process.output


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep them together, with their broker."""
    for item in items:
        if "tests/interop/security/" in item.nodeid:
            item.add_marker(pytest.mark.interop)
            item.add_marker(pytest.mark.xdist_group("secured"))
