"""What the fuzzing tests leave as they found it."""

import tracemalloc
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def traced_memory() -> Iterator[None]:
    """Stop tracing memory, which the judge starts: other tests of this process count their own."""
    yield
    tracemalloc.stop()
