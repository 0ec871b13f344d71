"""Where cold storage may be: a place that nothing here could reach is refused at the start."""

import pytest
from fsspec.registry import known_implementations

from tailrace.core.log.cold.config import ColdConfig
from tailrace.core.runtime.config import Assignment, ConfigError, load, shown


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


KEY = "AKIA-not-for-your-eyes"


def test_options_may_have_credentials_and_are_shown_nowhere() -> None:
    text = f'{{"key": "{KEY}", "secret": "{KEY}"}}'
    loaded = load(ColdConfig, [Assignment("cold.storage.options", text, f"--set o={text}")])
    assert loaded.config.storage_options == {"key": KEY, "secret": KEY}
    printed = [(shown(each.value), each.origin) for each in loaded.effective()]
    assert KEY not in str(printed) + repr(loaded)
    assert ColdConfig().storage_options == {}


@pytest.mark.parametrize("text", [f'{{"key": "{KEY}"', f'["{KEY}"]', KEY])
def test_options_that_cannot_be_read_are_not_repeated(text: str) -> None:
    with pytest.raises(ConfigError, match=r"cold\.storage\.options") as refused:
        load(ColdConfig, [Assignment("cold.storage.options", text, f"--set o={text}")])
    seen: BaseException | None = refused.value
    while seen is not None:
        assert KEY not in str(seen)
        seen = seen.__cause__


def test_a_password_in_the_url_is_refused_unseen() -> None:
    with pytest.raises(ValueError, match="has a password") as refused:
        ColdConfig(url=f"sftp://user:{KEY}@host/path")
    assert KEY not in str(refused.value)
