"""Who may do what, and what filters match: as Kafka 4.3.1's own StandardAuthorizer says."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from random import Random
from typing import Any

import pytest

from tailrace.core.access.acls.authorizer import AclAuthorizer
from tailrace.core.access.acls.filters import AclFilter, EntryFilter, PatternFilter
from tailrace.core.access.acls.model import (
    Acl,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from tests.java.peers import LinePeer
from tests.unit.core.access.acls.oracle import (
    HOSTS,
    KINDS,
    NAMES,
    PRINCIPALS,
    Oracle,
    Question,
    random_acl,
    random_question,
    use_all,
)

pytestmark = pytest.mark.java

WORLDS = 500
QUESTIONS = 50
FILTERS = 10
SUPER_USER = "User:root"


class AuthorizerPeer(LinePeer):
    """One JVM with Kafka's authorizer; see kafka/AuthorizerPeer.java."""

    def __init__(self) -> None:
        super().__init__("kafka", "AuthorizerPeer")

    def ask(
        self,
        oracle: Oracle,
        questions: Sequence[Question],
        filters: Sequence[AclFilter] = (),
    ) -> tuple[list[bool], list[set[Acl]]]:
        """Return what Kafka answers to each question, and what each filter matches."""
        asked = {
            "id": 0,
            "super": ";".join(oracle.super_users),
            "open": oracle.is_open,
            "acls": [[*acl.pattern, *acl.entry] for acl in oracle.acls],
            "questions": [[*each.requester, *each[1:]] for each in questions],
            "filters": [[*each.pattern, *each.entry] for each in filters],
        }
        answer: dict[str, Any] = json.loads(self.line(json.dumps(asked)))
        assert "error" not in answer, answer
        matched = [{oracle.acls[number] for number in numbers} for numbers in answer["matched"]]
        return [each == "1" for each in answer["answers"]], matched


@pytest.fixture(scope="module")
def peer() -> Iterator[AuthorizerPeer]:
    peer = AuthorizerPeer()
    yield peer
    peer.close()


def random_filter(random: Random) -> AclFilter:
    return AclFilter(
        PatternFilter(
            random.choice([ResourceType.ANY, *KINDS]),
            random.choice([None, None, "", "abcde", *NAMES]),
            random.choice([each for each in PatternType if each is not PatternType.UNKNOWN]),
        ),
        EntryFilter(
            random.choice([None, None, None, *PRINCIPALS]),
            random.choice([None, None, None, "*", *HOSTS]),
            random.choice([Operation.ANY, Operation.ANY, Operation.READ, Operation.ALL]),
            random.choice([Permission.ANY, Permission.ANY, Permission.ALLOW, Permission.DENY]),
        ),
    )


def test_decisions_are_kafkas(peer: AuthorizerPeer) -> None:
    answers: Counter[tuple[bool, bool]] = Counter()
    for seed in range(WORLDS):
        random = Random(seed)
        acls = list({random_acl(random) for _ in range(random.choice([0, 1, 2, 4, 8, 16, 60]))})
        oracle = Oracle(acls, [SUPER_USER], is_open=random.random() < 0.3)
        decides = use_all(
            AclAuthorizer(super_users=[SUPER_USER], allow_everyone_without_acl=oracle.is_open),
            acls,
        )
        questions = [random_question(random) for _ in range(QUESTIONS)]
        filters = [random_filter(random) for _ in range(FILTERS)]
        theirs, matched = peer.ask(oracle, questions, filters)
        for question, answer in zip(questions, theirs, strict=True):
            assert question.answer_of(decides) is answer, (seed, question, acls)
            assert question.answer_of(oracle) is answer, (seed, question, acls)
            answers[answer, question.name is None] += 1
        for wanted, found in zip(filters, matched, strict=True):
            ours = {
                acl
                for acl in acls
                if wanted.pattern.matches(acl.pattern) and wanted.entry.matches(acl.entry)
            }
            assert ours == found, (seed, wanted, acls)
    assert answers.total() == WORLDS * QUESTIONS
    assert min(answers.values()) > answers.total() // 20, answers
