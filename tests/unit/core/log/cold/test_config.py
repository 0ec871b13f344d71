"""Where cold storage may be: a place that nothing here could reach is refused at the start."""

import pytest
from fsspec.registry import known_implementations

from tailrace.core.log.cold.config import ColdConfig


@pytest.mark.parametrize("url", ["", "/srv/cold", "cold", "file:///srv/cold", "memory://cold"])
def test_what_is_here(url: str) -> None:
    assert ColdConfig(url=url).url == url


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("bogus://x", "there is no file system bogus://"),
        ("s3a://bucket", r"s3a:// needs a package more \(pip install s3fs\)"),
        ("elsewhere://x", r"elsewhere:// needs a package more \(pip install no_such_package\)"),
    ],
)
def test_what_is_not(url: str, why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    unknown = {"class": "no_such_package.FileSystem"}
    monkeypatch.setitem(known_implementations, "elsewhere", unknown)
    monkeypatch.setattr(
        "tailrace.core.log.cold.file_systems.find_spec",
        lambda name: None if name in ("s3fs", "no_such_package") else name,
    )
    with pytest.raises(ValueError, match=f"cold.storage.url: {why}"):
        ColdConfig(url=url)
