"""What ACLs allow: as a list that is walked says, whatever index and whatever was kept."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.core.access.acls import authorizer as module
from tailrace.core.access.acls.authorizer import AclAuthorizer
from tailrace.core.access.acls.model import (
    Acl,
    Entry,
    Operation,
    Pattern,
    PatternType,
    Permission,
    ResourceType,
)
from tailrace.core.access.requester import Requester
from tests.unit.core.access.acls.oracle import (
    Oracle,
    random_acl,
    random_question,
    use_all,
)

ALICE = Requester("User:alice", "10.0.0.1")
TOPIC = ResourceType.TOPIC
LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED
ALLOW, DENY = Permission.ALLOW, Permission.DENY


def acl(
    name: str,
    operation: Operation,
    permission: Permission = ALLOW,
    *,
    kind: PatternType = LITERAL,
    principal: str = ALICE.principal,
    host: str = "*",
) -> Acl:
    return Acl(Pattern(TOPIC, name, kind), Entry(principal, host, operation, permission))


def authorizer(*acls: Acl, is_open: bool = False) -> AclAuthorizer:
    return use_all(AclAuthorizer(allow_everyone_without_acl=is_open), acls)


@pytest.mark.parametrize(
    ("acls", "is_allowed"),
    [
        ([], False),
        ([acl("orders", Operation.READ)], True),
        ([acl("orders", Operation.ALL)], True),
        ([acl("orders", Operation.WRITE)], False),
        ([acl("other", Operation.READ)], False),
        ([acl("*", Operation.READ)], True),
        ([acl("ord", Operation.READ, kind=PREFIXED)], True),
        ([acl("orders", Operation.READ, kind=PREFIXED)], True),
        ([acl("orders2", Operation.READ, kind=PREFIXED)], False),
        ([acl("*", Operation.READ, kind=PREFIXED)], False),
        ([acl("orders", Operation.READ, principal="User:*")], True),
        ([acl("orders", Operation.READ, principal="User:alicE")], False),
        ([acl("orders", Operation.READ, host="10.0.0.1")], True),
        ([acl("orders", Operation.READ, host="10.0.0.11")], False),
        ([acl("orders", Operation.READ), acl("*", Operation.READ, DENY)], False),
        ([acl("orders", Operation.READ), acl("*", Operation.ALL, DENY)], False),
        ([acl("orders", Operation.READ), acl("o", Operation.READ, DENY, kind=PREFIXED)], False),
        ([acl("orders", Operation.READ), acl("*", Operation.DESCRIBE, DENY)], True),
        ([acl("orders", Operation.READ), acl("*", Operation.ALL, DENY, host="10.0.0.2")], True),
    ],
)
def test_what_may_be_read(acls: list[Acl], is_allowed: bool) -> None:
    for is_open in (False, True):
        found = authorizer(*acls, is_open=is_open).allows(ALICE, Operation.READ, TOPIC, "orders")
        matches = any(each.pattern.name not in {"other", "orders2"} for each in acls)
        matches = matches and Pattern(TOPIC, "*", PREFIXED) not in {each.pattern for each in acls}
        assert found is (is_allowed or (is_open and not matches))


@pytest.mark.parametrize(
    ("acls", "is_allowed"),
    [
        ([], False),
        ([acl("orders", Operation.READ)], True),
        ([acl("orders", Operation.WRITE)], False),
        ([acl("orders", Operation.ALL, principal="User:bob")], False),
        ([acl("o", Operation.ALL, kind=PREFIXED)], True),
        ([acl("*", Operation.READ)], True),
        ([acl("*", Operation.READ), acl("*", Operation.READ, DENY)], False),
        ([acl("*", Operation.READ), acl("orders", Operation.READ, DENY)], True),
        ([acl("orders", Operation.READ), acl("*", Operation.ALL, DENY)], False),
        ([acl("orders", Operation.READ), acl("*", Operation.WRITE, DENY)], True),
        ([acl("orders", Operation.READ), acl("orders", Operation.READ, DENY)], False),
        ([acl("orders", Operation.READ), acl("o", Operation.READ, DENY, kind=PREFIXED)], False),
        ([acl("orders", Operation.READ), acl("p", Operation.READ, DENY, kind=PREFIXED)], True),
        (
            [
                acl("o", Operation.READ, kind=PREFIXED),
                acl("o", Operation.READ, DENY, kind=PREFIXED),
            ],
            False,
        ),
        (
            [
                acl("o", Operation.READ, kind=PREFIXED),
                acl("orders", Operation.READ, DENY, kind=PREFIXED),
            ],
            True,
        ),
        ([acl("o", Operation.READ, kind=PREFIXED), acl("o", Operation.READ, DENY)], True),
    ],
)
def test_whether_anything_may_be_read(acls: list[Acl], is_allowed: bool) -> None:
    decides = authorizer(*acls)
    assert decides.allows_any(ALICE, Operation.READ, TOPIC) is is_allowed
    assert not decides.allows_any(ALICE, Operation.READ, ResourceType.GROUP)
    if not any(each.entry.operation is Operation.ALL for each in acls):
        # DESCRIBE is implied for a resource, not for any of a type, unless the wildcard says so
        is_implied = decides.allows(ALICE, Operation.DESCRIBE, TOPIC, "x")
        assert decides.allows_any(ALICE, Operation.DESCRIBE, TOPIC) is is_implied


def test_a_group_of_the_same_name_is_another_resource() -> None:
    decides = authorizer(acl("orders", Operation.ALL))
    assert not decides.allows(ALICE, Operation.READ, ResourceType.GROUP, "orders")


def test_super_users_may_do_everything() -> None:
    decides = AclAuthorizer(super_users=["User:alice"])
    use_all(decides, [acl("*", Operation.ALL, DENY)])
    assert decides.allows(ALICE, Operation.WRITE, TOPIC, "orders")
    assert decides.allows_any(ALICE, Operation.WRITE, TOPIC)
    assert not decides.allows(Requester("User:bob", "h"), Operation.WRITE, TOPIC, "orders")


def test_one_ipv6_address_has_several_spellings() -> None:
    javas = acl("orders", Operation.READ, host="0:0:0:0:0:0:0:1")
    for host, is_allowed in (("::1", True), ("0:0:0:0:0:0:0:1", True), ("::2", False)):
        requester = Requester("User:alice", host)
        assert authorizer(javas).allows(requester, Operation.READ, TOPIC, "orders") is is_allowed
    mapped = Requester("User:alice", "::ffff:10.0.0.1")
    of_v4 = acl("orders", Operation.READ, host="10.0.0.1")
    assert authorizer(of_v4).allows(mapped, Operation.READ, TOPIC, "orders")
    assert not authorizer(of_v4).allows(
        Requester("User:alice", "not:an:address"), Operation.READ, TOPIC, "orders"
    )


def test_a_change_is_in_force_at_once_and_raises_the_version() -> None:
    decides = authorizer()
    pattern, entry = acl("ord", Operation.READ, kind=PREFIXED)
    asked = (ALICE, Operation.READ, TOPIC, "orders")
    for _ in range(2):
        version = decides.version
        assert not decides.allows(*asked)
        assert not decides.allows_any(ALICE, Operation.READ, TOPIC)
        decides.use(pattern, [entry])
        assert decides.allows(*asked)
        assert decides.allows_any(ALICE, Operation.READ, TOPIC)
        assert decides.version > version
        version = decides.version
        decides.use(pattern, ())
        assert decides.version > version


@settings(max_examples=150, deadline=None)
@given(st.randoms(use_true_random=False), st.integers(0, 12), st.booleans())
def test_every_decision_is_the_oracles(random: Random, count: int, is_open: bool) -> None:
    acls = [random_acl(random) for _ in range(count)]
    questions = [random_question(random) for _ in range(12)]
    oracle = Oracle(acls, ["User:root"], is_open)
    decides = AclAuthorizer(super_users=["User:root"], allow_everyone_without_acl=is_open)
    use_all(decides, acls)
    for _ in range(2):  # the second time from what was kept
        for question in questions:
            assert question.answer_of(decides) is question.answer_of(oracle), (acls, question)


@settings(max_examples=60, deadline=None)
@given(st.randoms(use_true_random=False))
def test_decisions_follow_changes(random: Random) -> None:
    """Patterns come, change and go; nothing that was kept outlives its reason."""
    decides = AclAuthorizer()
    acls: list[Acl] = []
    questions = [random_question(random) for _ in range(6)]
    for _ in range(8):
        changed = random_acl(random).pattern
        acls = [each for each in acls if each.pattern != changed]
        entries = [random_acl(random).entry for _ in range(random.randrange(3))]
        acls += [Acl(changed, entry) for entry in entries]
        decides.use(changed, entries)
        for question in questions:
            assert question.answer_of(decides) is question.answer_of(Oracle(acls)), question


def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "KEPT_MAX", 10)
    decides = authorizer(acl("t", Operation.READ, kind=PREFIXED))
    for number in range(100):
        name = f"t{number}" * (1 + 300 * (number % 2))
        requester = Requester("User:alice", f"10.0.0.{number}")
        assert decides.allows(requester, Operation.READ, TOPIC, name)
        assert decides.allows_any(requester, Operation.READ, TOPIC)
        for kept in (decides._decided, decides._found, decides._any):
            assert 0 < len(kept) <= 10
        names = [key[-1] for key in [*decides._found, *decides._decided]]
        assert max(map(len, names)) <= module.KEPT_NAME_MAX
