"""A Docker daemon and Tailrace's image, for all tests here.

Where no daemon can run they are skipped. Where one does, an image that cannot be had fails them:
else they would pass untested wherever a mirror is slow.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from tests.docker import engine, images

TIMEOUT_S: Final = 1500
"""Of one test: the first one waits for the base, the wheels and the image."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give the tests here more time than others have."""
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here):
            item.add_marker(pytest.mark.timeout(TIMEOUT_S))


class Built(NamedTuple):
    """The image under test."""

    name: str
    base: str


@pytest.fixture(scope="package")
def daemon() -> Iterator[None]:
    """A daemon that `docker` uses; one of our own ends with the tests of this folder."""
    os.environ["TESTCONTAINERS_RYUK_DISABLED"] = "true"  # its image would have to be pulled
    if engine.answers():
        yield
        return
    missing = engine.missing()
    if missing:
        pytest.skip(f"no Docker daemon answers, and to start one is missing: {missing}")
    try:
        own = engine.Engine().start()
    except engine.CannotStart as refused:
        pytest.skip(str(refused))
    yield
    own.close()


@pytest.fixture(scope="package")
def image(daemon: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Built]:
    """Tailrace's image, of this tree."""
    yield Built(images.IMAGE, built(tmp_path_factory.mktemp("context")))
    images.discard()


def built(context: Path) -> str:
    """Build the image and return its base; skip or fail the test that wants it."""
    try:
        return images.build(context)
    except engine.CannotStart as refused:
        pytest.skip(str(refused))
    except images.CannotBuild as error:
        pytest.fail(str(error))


@pytest.fixture
def left_behind() -> Iterator[list[str]]:
    """Ids of containers that a test started; they are removed with their volumes."""
    containers: list[str] = []
    yield containers
    for each in containers:
        engine.docker("rm", "--force", "--volumes", each)


@pytest.fixture(scope="session")
def site_packages() -> Path:
    """Where the clients are that a container without them is given."""
    import aiokafka

    return Path(aiokafka.__file__).parents[1]
