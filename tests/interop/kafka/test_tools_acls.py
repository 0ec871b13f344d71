"""kafka-acls on a broker with an authorizer, and without."""

import shlex
from collections.abc import Iterator

import pytest

from tests.cluster.acl_requests import AS_SUPER_USER
from tests.docs.pages import blocks
from tests.interop.kafka.tools import Run, Tools
from tests.java.peers import JavaClient
from tests.process import TailraceProcess
from tests.rooms import ROOT

pytestmark = [pytest.mark.interop, pytest.mark.java]


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TailraceProcess]:
    data = tmp_path_factory.mktemp("guarded") / "data"
    with TailraceProcess(data, *AS_SUPER_USER) as running:
        yield running


@pytest.fixture
def guarded_tools(kafka_4: JavaClient, guarded: TailraceProcess) -> Tools:
    return Tools(kafka_4, guarded)


def entries(done: Run) -> set[str]:
    """Return the lines of a list that are entries: (principal=..., host=..., ...)."""
    lines = (line.strip() for line in done.out.splitlines())
    return {line for line in lines if line.startswith("(")}


def entry(principal: str, operation: str, permission: str = "ALLOW", host: str = "*") -> str:
    return (
        f"(principal={principal}, host={host}, operation={operation}, permissionType={permission})"
    )


def test_entries_are_added_listed_and_removed(guarded_tools: Tools) -> None:
    orders = ["--topic", "orders"]
    guarded_tools("acls", "--add", *orders, "--allow-principal", "User:alice", "--producer")
    guarded_tools("acls", "--add", *orders, "--deny-principal", "User:CN=bob,O=x",
                  "--deny-host", "10.0.0.1", "--operation", "read")  # fmt: skip
    produces = {entry("User:alice", name) for name in ("WRITE", "DESCRIBE", "CREATE")}
    denied = entry("User:CN=bob,O=x", "READ", "DENY", "10.0.0.1")
    listed = guarded_tools("acls", "--list", *orders)
    assert "resourceType=TOPIC, name=orders, patternType=LITERAL" in listed.out
    assert entries(listed) == produces | {denied}
    of_bob = guarded_tools("acls", "--list", "--principal", "User:CN=bob,O=x")
    assert entries(of_bob) == {denied}
    guarded_tools("acls", "--remove", "--force", *orders, "--deny-principal", "User:CN=bob,O=x",
                  "--deny-host", "10.0.0.1", "--operation", "read")  # fmt: skip
    assert entries(guarded_tools("acls", "--list", *orders)) == produces
    guarded_tools("acls", "--remove", "--force", *orders)
    assert entries(guarded_tools("acls", "--list")) == set()


def test_prefixes_are_found_by_what_they_match(guarded_tools: Tools) -> None:
    prefixed = ["--resource-pattern-type", "prefixed", "--topic", "eu-", "--group", "eu-"]
    guarded_tools("acls", "--add", *prefixed, "--allow-principal", "User:*", "--consumer")
    guarded_tools("acls", "--add", "--cluster", "--allow-principal", "User:ops",
                  "--operation", "alter")  # fmt: skip
    guarded_tools("acls", "--add", "--transactional-id", "*", "--allow-principal", "User:tx",
                  "--operation", "all")  # fmt: skip
    consumes = {entry("User:*", "READ"), entry("User:*", "DESCRIBE")}
    match = ["--resource-pattern-type", "match", "--topic", "eu-orders"]
    listed = guarded_tools("acls", "--list", *match)
    assert "resourceType=TOPIC, name=eu-, patternType=PREFIXED" in listed.out
    assert entries(listed) == consumes
    assert entries(guarded_tools("acls", "--list", "--topic", "eu-orders")) == set()
    assert entries(guarded_tools("acls", "--list", "--cluster")) == {entry("User:ops", "ALTER")}
    everything = guarded_tools("acls", "--list", "--resource-pattern-type", "any")
    tx = entry("User:tx", "ALL")
    assert entries(everything) == consumes | {entry("User:ops", "ALTER"), tx}
    guarded_tools("acls", "--remove", "--force", *match, "--group", "eu-orders")
    guarded_tools("acls", "--remove", "--force", "--cluster")
    assert entries(guarded_tools("acls", "--list")) == {tx}
    guarded_tools("acls", "--remove", "--force", "--transactional-id", "*")
    assert entries(guarded_tools("acls", "--list")) == set()


def test_the_commands_of_the_page(guarded_tools: Tools) -> None:
    page = ROOT / "docs" / "operations" / "security.md"
    lines = [line for block in blocks(page) for line in block.lines]
    commands = [shlex.split(line) for line in lines if line.startswith("kafka-acls ")]
    printed = [guarded_tools("acls", *words[3:]) for words in commands]
    *added, listed, _ = printed
    assert all("Adding ACLs" in each.out for each in added)
    assert entries(listed) == {
        entry("User:bob", "READ"),
        entry("User:bob", "DESCRIBE"),
        entry("User:bob", "ALL", "DENY", "10.0.0.7"),
    }
    assert entries(guarded_tools("acls", "--list", "--topic", "orders")) == set()
    guarded_tools("acls", "--remove", "--force", "--topic", "*")
    prefixed = ["--resource-pattern-type", "prefixed"]
    guarded_tools("acls", "--remove", "--force", "--topic", "orders-", "--group", "eu-", *prefixed)
    assert entries(guarded_tools("acls", "--list")) == set()


def test_without_an_authorizer_the_tool_says_so(tools: Tools) -> None:
    done = tools.run("acls", "--list")
    assert "No Authorizer is configured" in done.out + done.err
