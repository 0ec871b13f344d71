"""Users as doors see them: look-ups, fakes, passwords, alterations; over a real store."""

import asyncio
import hashlib
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.core.access.users.alterations import Alteration, alter_users
from tailrace.core.access.users.cluster_secret import SECRET_BYTES, cluster_secret
from tailrace.core.access.users.codec import USER_CODEC, Credentials
from tailrace.core.access.users.credentials import (
    ScramCredential,
    ScramMechanism,
    credential_from,
    salted_password,
)
from tailrace.core.access.users.fakes import (
    LETTERS,
    USUAL_FORM,
    CredentialForm,
    fake_credential,
    form_of,
    most_usual,
)
from tailrace.core.access.users.lookup import UserLookup
from tailrace.core.access.users.new_credentials import (
    UnacceptableCredential,
    check_iterations,
    check_password,
    check_salted,
    check_user,
    new_credential,
)
from tailrace.core.access.users.password_checker import PasswordChecker
from tailrace.core.errors import CorruptData
from tailrace.core.metadata.sqlite import SqliteStore
from tailrace.core.metadata.stored_entities import StoredEntities
from tailrace.core.runtime.clock import SystemClock

SHA_256, SHA_512 = ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512
forms = st.builds(
    CredentialForm, st.sampled_from([4096, 8192]), st.integers(1, 80), is_text=st.booleans()
)


def made(
    password: str, mechanism: ScramMechanism = SHA_256, iterations: int = 4096
) -> ScramCredential:
    salt = b"s" * 26
    salted = salted_password(mechanism, password.encode(), salt, iterations)
    return credential_from(mechanism, salted, salt, iterations)


@asynccontextmanager
async def users(path: Path) -> AsyncIterator[tuple[StoredEntities[Credentials], UserLookup]]:
    store = SqliteStore(path / "metadata.db", SystemClock())
    stored = StoredEntities(store, "/users", USER_CODEC)
    lookup = UserLookup(stored, b"secret")
    await stored.start()
    try:
        yield stored, lookup
    finally:
        await stored.close()
        await store.close()


def run(story: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        await story()

    asyncio.run(main())


@given(mechanism=st.sampled_from(ScramMechanism), user=st.text(), form=forms)
def test_a_fake_has_the_form_of_others_and_is_the_same_each_time(
    mechanism: ScramMechanism, user: str, form: CredentialForm
) -> None:
    fake = fake_credential(b"secret", mechanism, user, form)
    assert fake == fake_credential(b"secret", mechanism, user, form)
    assert (fake.iterations, len(fake.salt)) == (form.iterations, form.salt_length)
    assert not form.is_text or not fake.salt.translate(None, LETTERS)
    size = hashlib.new(mechanism.hash_name).digest_size
    assert (len(fake.stored_key), len(fake.server_key)) == (size, size)
    others = [
        fake_credential(b"other secret", mechanism, user, form),
        fake_credential(b"secret", mechanism, user + "x", form),
    ]
    assert fake.stored_key not in [each.stored_key for each in others]


@given(st.lists(forms))
def test_the_most_usual_form_is_that_of_most(given_forms: list[CredentialForm]) -> None:
    usual = most_usual(Counter(given_forms))
    if usual is None:
        assert given_forms == []
        return
    assert all(given_forms.count(usual) >= given_forms.count(each) for each in given_forms)


def test_a_new_credential_has_the_usual_form() -> None:
    assert form_of(new_credential(SHA_256, "password")) == USUAL_FORM
    assert new_credential(SHA_512, "password") != new_credential(SHA_512, "password")


def test_fakes_follow_what_users_have(tmp_path: Path) -> None:
    async def story() -> None:
        async with users(tmp_path) as (stored, lookup):
            assert form_of(lookup.fake(SHA_256, "x")) == USUAL_FORM
            for number in range(3):
                strong = {SHA_256: made("p", iterations=8192)}
                await stored.change({f"u{number}": lambda _, new=strong: new})  # type: ignore[misc]
            assert lookup.fake(SHA_256, "x").iterations == 8192
            assert lookup.fake(SHA_512, "x").iterations == 4096
            await stored.change({f"u{number}": lambda _: None for number in range(3)})
            assert form_of(lookup.fake(SHA_256, "x")) == USUAL_FORM
            assert lookup._forms == {SHA_256: Counter(), SHA_512: Counter()}
            assert lookup._counted == {}

    run(story)


def test_a_password_is_right_until_its_user_changes(tmp_path: Path) -> None:
    async def story() -> None:
        async with users(tmp_path) as (stored, lookup):
            checker = PasswordChecker(lookup)
            await stored.change({"alice": lambda _: {SHA_256: made("one")},
                                 "bob": lambda _: {SHA_512: made("two", SHA_512)}})  # fmt: skip
            for _ in range(2):  # asked, then remembered
                assert await checker.is_right("alice", "one")
                assert await checker.is_right("bob", "two")
                for user, password in (("alice", "two"), ("bob", ""), ("nobody", "one")):
                    assert not await checker.is_right(user, password)
            await stored.change({"alice": lambda _: {SHA_256: made("new")}, "bob": lambda _: None})
            assert not await checker.is_right("alice", "one")
            assert await checker.is_right("alice", "new")
            assert not await checker.is_right("bob", "two")
            assert not await checker.is_right("alice", "x" * 100_000)
            assert not await checker.is_right("alice", "\ud800")
            assert "new" not in repr(checker._remembered)
            await checker.close()

    run(story)


def test_users_are_altered_together(tmp_path: Path) -> None:
    async def story() -> None:
        async with users(tmp_path) as (stored, _):
            one, two = made("one"), made("two", SHA_512)
            put = {"a": Alteration(SHA_256, one), "b": Alteration(SHA_512, two)}
            assert await alter_users(stored, put) == set()
            assert await alter_users(stored, {"a": Alteration(SHA_512, two)}) == set()
            assert stored.get("a") == {SHA_256: one, SHA_512: two}
            gone = {"a": Alteration(SHA_256, None), "b": Alteration(SHA_256, None),
                    "c": Alteration(SHA_256, None)}  # fmt: skip
            assert await alter_users(stored, gone) == {"b", "c"}
            assert (stored.get("a"), stored.get("b")) == ({SHA_512: two}, {SHA_512: two})
            assert await alter_users(stored, {"a": Alteration(SHA_512, None)}) == set()
            assert sorted(stored) == ["b"]
            assert await alter_users(stored, {"c": Alteration(SHA_256, None)}) == {"c"}

    run(story)


def test_a_cluster_has_one_secret(tmp_path: Path) -> None:
    async def story() -> None:
        store = SqliteStore(tmp_path / "metadata.db", SystemClock())
        made = await cluster_secret(store, "/a/secret")
        assert (len(made), await cluster_secret(store, "/a/secret")) == (SECRET_BYTES, made)
        await store.create("/short", b"x")
        with pytest.raises(CorruptData):
            await cluster_secret(store, "/short")
        await store.close()

    run(story)


@pytest.mark.parametrize(
    ("check", "words"),
    [
        (lambda: check_user(""), "Username must not be empty"),
        (lambda: check_user("\u2168"), "makes others of"),
        (lambda: check_user("a\0"), "prohibits"),
        (lambda: check_user("x" * 300), "300 characters"),
        (lambda: check_password("short"), "fewer than 8"),
        (lambda: check_password("\u2168 centuries"), "makes others of"),
        (lambda: check_iterations(4095), "Too few iterations"),
        (lambda: check_iterations(16385), "Too many iterations"),
        (lambda: check_salted(b"", b"x"), "salt"),
        (lambda: check_salted(b"x", b""), "salted password"),
        (lambda: check_salted(bytes(1025), b"x"), "salt"),
        (lambda: new_credential(SHA_256, "password", 1), "Too few"),
    ],
)
def test_what_is_not_to_be_a_credential(check: Callable[[], object], words: str) -> None:
    with pytest.raises(UnacceptableCredential, match=words):
        check()
