import asyncio
from pathlib import Path

import pytest

from tailrace.core.errors import Unavailable
from tailrace.core.metadata.sqlite import SqliteStore
from tailrace.core.metadata.uri import (
    MetadataUri,
    NamespaceUri,
    ledgers_root,
    open_store,
    parse_namespace_uri,
    parse_uri,
)


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("zk://h1:2181/ledgers", MetadataUri("/ledgers", "h1:2181")),
        ("zk://h1,h2:2182/a/b", MetadataUri("/a/b", "h1:2181,h2:2182")),
        ("zk+hierarchical://h1:1;h2:2/ledgers", MetadataUri("/ledgers", "h1:1,h2:2")),
        ("zk+null://127.0.0.1:1", MetadataUri("/ledgers", "127.0.0.1:1")),
        ("zk://[::1]:2181/l", MetadataUri("/l", "[::1]:2181")),
        ("sqlite:a/b.db", MetadataUri("/ledgers", path=Path("a/b.db"))),
        ("sqlite:/a:b", MetadataUri("/ledgers", path=Path("/a:b"))),
    ],
)
def test_uris_are_read(uri: str, expected: MetadataUri) -> None:
    assert parse_uri(uri) == expected
    assert ledgers_root(uri) == expected.ledgers_root


@pytest.mark.parametrize(
    "uri",
    [
        *("", "zk", "zk:h1:2181", "sqlite:", "http://h1/ledgers", "zk:///ledgers", "zk://h1:2181/"),
        *(
            "zk://h1:0/l",
            "zk://h1:65536/l",
            "zk://h1:x/l",
            "zk://h1,/l",
            "zk://h1:1/l/",
            "zk://h 1/l",
        ),
        *(
            "zk+flat://h1/ledgers",
            "zk+longhierarchical://h1/ledgers",
            "zk://h1//l",
            "zk://h1/a/../b",
        ),
    ],
)
def test_what_is_no_uri_is_refused(uri: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        parse_uri(uri)


def test_sqlite_opens(tmp_path: Path) -> None:
    async def story() -> None:
        store = await open_store(f"sqlite:{tmp_path / 'm'}")
        assert isinstance(store, SqliteStore)
        await store.create("/a")
        beside = await open_store(f"sqlite:{tmp_path / 'm'}", read_only=True)
        assert await beside.exists("/a") is not None
        await beside.close()
        await store.close()
        with pytest.raises(Unavailable):
            await open_store(f"sqlite:{tmp_path / 'none'}", read_only=True)

    asyncio.run(story(), debug=True)


@pytest.mark.parametrize(
    ("uri", "expected", "normal"),
    [
        (
            "distributedlog-bk://h1:2181;h2/messaging/ns",
            NamespaceUri("/messaging/ns", "h1:2181,h2:2181"),
            "distributedlog://h1:2181;h2:2181/messaging/ns",
        ),
        (
            "distributedlog://h1:1,h2:2/ns",
            NamespaceUri("/ns", "h1:1,h2:2"),
            "distributedlog://h1:1;h2:2/ns",
        ),
        (
            "sqlite:a/m.db",
            NamespaceUri("/distributedlog/tailrace", path=Path("a/m.db")),
            "sqlite:a/m.db",
        ),
    ],
)
def test_namespace_uris_are_read(uri: str, expected: NamespaceUri, normal: str) -> None:
    assert parse_namespace_uri(uri) == expected
    assert expected.text == normal
    assert parse_namespace_uri(normal) == expected


@pytest.mark.parametrize(
    "uri",
    [
        *("", "distributedlog", "distributedlog:h1/ns", "zk://h1/ns", "sqlite:"),
        *("distributedlog://h1", "distributedlog://h1/", "distributedlog://h1/ns/"),
        *("distributedlog-mem://h1/ns", "distributedlog:///ns", "distributedlog://h1:0/ns"),
        "distributedlog://h1/a//b",
    ],
)
def test_what_is_no_namespace_uri_is_refused(uri: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        parse_namespace_uri(uri)
