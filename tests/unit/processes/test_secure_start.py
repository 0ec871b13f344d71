"""What `--secure` makes: once, whenever it is killed, and renewed when it is due."""

import asyncio
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from tailrace.broker.cluster.paths import ClusterPaths
from tailrace.core.access.users.codec import USER_CODEC
from tailrace.core.access.users.credentials import ScramMechanism, credential_from, salted_password
from tailrace.core.metadata.sqlite import SqliteStore
from tailrace.core.metadata.stored_entities import StoredEntities
from tailrace.core.runtime.clock import ManualClock, SystemClock
from tailrace.core.runtime.config import Assignment, ConfigError, load
from tailrace.core.security.issuing import RENEW_DAYS, SERVER_DAYS
from tailrace.processes import secure_start
from tailrace.processes.secure_config import secure_settings
from tailrace.processes.secure_start import Secured, server_names
from tailrace.processes.standalone_config import StandaloneConfig

DAY_MS = 24 * 3600 * 1000


def config(data: Path, **given: str) -> StandaloneConfig:
    settings = {"data": str(data), "secure": "true", **given}
    own = [Assignment(key.replace("__", "."), value, "a test") for key, value in settings.items()]
    return load(StandaloneConfig, [*secure_settings(data), *own]).config


def prepared(settings: StandaloneConfig, clock: ManualClock | SystemClock) -> str:
    """Start once; return what people are told."""

    async def run() -> str:
        store = SqliteStore(settings.metadata_path, clock)
        try:
            return await Secured(settings, clock).prepare(store)
        finally:
            await store.close()

    return asyncio.run(run())


def fits(settings: StandaloneConfig, password: str) -> bool:
    """Return whether a password is the user admin's, by every mechanism."""

    async def run() -> bool:
        store = SqliteStore(settings.metadata_path, SystemClock())
        users = StoredEntities(store, ClusterPaths().users, USER_CODEC)
        await users.start()
        found = users.get("admin") or {}
        await users.close()
        await store.close()
        assert set(found) == set(ScramMechanism)
        return all(
            credential_from(
                mechanism,
                salted_password(mechanism, password.encode(), each.salt, each.iterations),
                each.salt,
                each.iterations,
            )
            == each
            for mechanism, each in found.items()
        )

    return asyncio.run(run())


def password_in(data: Path) -> str:
    lines = (data / "security" / "librdkafka.properties").read_text().splitlines()
    (found,) = [line for line in lines if line.startswith("sasl.password=")]
    return found.partition("=")[2]


def test_it_is_made_once_and_only_its_owner_reads_it(tmp_path: Path) -> None:
    settings = config(tmp_path)
    told = prepared(settings, SystemClock())
    password = password_in(tmp_path)
    directory = tmp_path / "security"
    assert password in (directory / "client.properties").read_text()
    assert told.count(password) == 2
    assert fits(settings, password)
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    files = {each.name: each for each in directory.iterdir()}
    assert len(files) == 5
    assert {stat.S_IMODE(each.stat().st_mode) for each in files.values()} == {0o600}
    before = {name: each.read_bytes() for name, each in files.items()}
    assert prepared(settings, SystemClock()) == ""
    assert {each.name: each.read_bytes() for each in directory.iterdir()} == before


@pytest.mark.parametrize("writes", range(5))
def test_a_start_that_is_cut_anywhere_is_finished_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writes: int
) -> None:
    settings = config(tmp_path)
    whole, left = secure_start.write_private, [writes]

    def cut(path: Path, data: bytes) -> None:
        if not left[0]:
            raise OSError("cut")
        left[0] -= 1
        whole(path, data)

    with monkeypatch.context() as patched:
        patched.setattr(secure_start, "write_private", cut)
        with pytest.raises(OSError, match="cut"):
            prepared(settings, SystemClock())
    assert "secured" in prepared(settings, SystemClock())
    assert fits(settings, password_in(tmp_path))


def test_the_certificate_is_renewed_when_it_is_due_and_the_authority_stays(tmp_path: Path) -> None:
    clock = ManualClock()
    prepared(config(tmp_path), clock)
    directory = tmp_path / "security"

    def changed(change: Callable[[], StandaloneConfig]) -> set[str]:
        before = {each.name: each.read_bytes() for each in directory.iterdir()}
        prepared(change(), clock)
        return {each.name for each in directory.iterdir() if each.read_bytes() != before[each.name]}

    def later(days: int) -> Callable[[], StandaloneConfig]:
        clock.advance_ms(days * DAY_MS)
        return lambda: config(tmp_path)

    assert changed(later(SERVER_DAYS - RENEW_DAYS - 1)) == set()
    assert changed(later(2)) == {"server.pem"}
    named = {"advertised__listeners": "SASL_SSL://broker1:9"}
    assert changed(lambda: config(tmp_path, **named)) == {"server.pem"}
    assert changed(lambda: config(tmp_path, **named)) == set()


def test_the_names_by_which_it_is_reached(tmp_path: Path) -> None:
    settings = config(
        tmp_path,
        listeners="SASL_SSL://10.0.0.1:9,B://:8",
        advertised__listeners="B://broker1:9",
        listener__security__protocol__map="B:SASL_SSL",
        admin__http__enable="true",
        admin__http__host="10.0.0.2",
        proxy__listener="10.0.0.3:1",
    )
    names = set(server_names(settings))
    assert {"localhost", "127.0.0.1", "::1", "10.0.0.1", "10.0.0.2", "broker1"} < names
    assert not {"", "10.0.0.3"} & names


def test_another_key_store_is_left_alone(tmp_path: Path) -> None:
    settings = config(tmp_path, ssl__keystore__location="own.pem")
    prepared(settings, SystemClock())
    names = {each.name for each in (tmp_path / "security").iterdir()}
    assert names == {"client.properties", "librdkafka.properties"}
    assert "truststore" not in (tmp_path / "security" / "client.properties").read_text()


def test_a_damaged_authority_is_named(tmp_path: Path) -> None:
    prepared(config(tmp_path), SystemClock())
    (tmp_path / "security" / "authority.pem").write_bytes(b"damaged")
    with pytest.raises(ConfigError, match="security"):
        prepared(config(tmp_path), SystemClock())
