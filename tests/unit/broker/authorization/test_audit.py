"""The audit log: what is in it, at which level, and that it is one line whatever names have."""

import json
from pathlib import Path
from typing import Any

import pytest

from tailrace.core.access.acls.model import CLUSTER_NAME
from tailrace.core.access.acls.model import Operation as Op
from tailrace.core.access.acls.model import ResourceType as Of
from tailrace.core.access.audit import (
    TEXT_MAX,
    Action,
    Audit,
    AuditLevel,
    Door,
    audit_of,
)
from tailrace.core.access.requester import Requester
from tailrace.protocol.kafka import apis
from tailrace.protocol.kafka.messages.list_groups import ListGroupsRequest
from tailrace.protocol.kafka.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.unit.broker.authorization.support import guard, whole_world
from tests.unit.broker.handlers.ask import ask
from tests.unit.broker.loops import in_loop

ALICE = Requester("User:alice", "10.0.0.7")
NOW_MS = 1_764_306_000_123
NOW = "2025-11-28T05:00:00.123Z"


def audit(path: Path, level: AuditLevel = AuditLevel.ALL) -> Audit:
    return Audit(level, path / "audit", lambda: NOW_MS)


async def lines(log: Audit, path: Path) -> list[dict[str, Any]]:
    await log.close()
    text = (path / "audit").read_text() if (path / "audit").exists() else ""
    return [json.loads(line) for line in text.splitlines()]


@in_loop
async def test_a_line_says_who_asked_for_what_from_where(tmp_path: Path) -> None:
    log = audit(tmp_path)
    door, action = Door("SASL_SSL", "Fetch"), Action(Op.READ, Of.TOPIC, "orders")
    log.authorized(ALICE, door, action, 1, allowed=False)
    log.authenticated(ALICE, "SASL_SSL", "PLAIN")
    log.refused("10.0.0.8", "SASL_SSL", "PLAIN", "authentication failed")
    assert await lines(log, tmp_path) == [
        {
            "time": NOW,
            "event": "authorization",
            "principal": "User:alice",
            "host": "10.0.0.7",
            "listener": "SASL_SSL",
            "api": "Fetch",
            "operation": "READ",
            "resource": "TOPIC",
            "name": "orders",
            "result": "DENIED",
        },
        {
            "time": NOW,
            "event": "authentication",
            "principal": "User:alice",
            "host": "10.0.0.7",
            "listener": "SASL_SSL",
            "mechanism": "PLAIN",
            "result": "ALLOWED",
        },
        {
            "time": NOW,
            "event": "authentication",
            "host": "10.0.0.8",
            "listener": "SASL_SSL",
            "mechanism": "PLAIN",
            "reason": "authentication failed",
            "result": "DENIED",
        },
    ]


@pytest.mark.parametrize(
    ("level", "results"),
    [
        (AuditLevel.ALL, ["ALLOWED", "DENIED", "ALLOWED", "DENIED"]),
        (AuditLevel.DENIED, ["DENIED"] * 2),
    ],
)
@in_loop
async def test_a_level_says_what_is_noted(
    tmp_path: Path, level: AuditLevel, results: list[str]
) -> None:
    log = audit(tmp_path, level)
    action = Action(Op.READ, Of.TOPIC, "t")
    log.authorized(ALICE, Door("L", "Fetch"), action, 1, allowed=True)
    log.authorized(ALICE, Door("L", "Fetch"), action, 2, allowed=False)
    log.authenticated(ALICE, "L", "PLAIN")
    log.refused("h", "L", "PLAIN", "no")
    assert [each["result"] for each in await lines(log, tmp_path)] == results


def test_without_a_place_or_a_level_there_is_none() -> None:
    assert audit_of(AuditLevel.OFF, "stderr", lambda: 0) is None
    assert audit_of(AuditLevel.ALL, "", lambda: 0) is None
    assert audit_of(AuditLevel.ALL, "stderr", lambda: 0) is not None


def test_a_log_that_cannot_be_written_is_refused_by_name(tmp_path: Path) -> None:
    log = audit_of(AuditLevel.ALL, str(tmp_path / "no" / "log"), lambda: 0)
    assert log is not None
    with pytest.raises(OSError, match=r"audit.log: .*/no/log cannot be written: No such file"):
        log.check()


@in_loop
async def test_names_cannot_forge_a_line(tmp_path: Path) -> None:
    log, name = audit(tmp_path), 'a"}\n{"result":"ALLOWED\u2028' + "x" * TEXT_MAX
    log.authorized(ALICE, Door("L", "Fetch"), Action(Op.READ, Of.GROUP, name), 1, allowed=False)
    (line,) = await lines(log, tmp_path)
    assert line["name"] == name[:TEXT_MAX]
    assert line["result"] == "DENIED"
    assert (tmp_path / "audit").read_bytes().isascii()


@in_loop
async def test_handlers_note_what_they_ask_once_and_no_lists(tmp_path: Path) -> None:
    async with whole_world() as world:
        guard(world, (Op.DESCRIBE, Of.TOPIC, "u"), (Op.READ, Of.GROUP, "g"))
        log = world.broker.audit = audit(tmp_path)
        named = [MetadataRequestTopic(name=name) for name in ("t", "u")]
        await ask(world, apis.METADATA, 9, MetadataRequest(topics=named))
        await ask(world, apis.METADATA, 9, MetadataRequest(topics=None))
        await ask(world, apis.LIST_GROUPS, 4, ListGroupsRequest())
        noted = [
            (each["api"], each["operation"], each["name"], each["result"])
            for each in await lines(log, tmp_path)
        ]
        assert noted == [
            ("Metadata", "DESCRIBE", "t", "DENIED"),
            ("Metadata", "DESCRIBE", "u", "ALLOWED"),
        ]
        assert CLUSTER_NAME not in {each[2] for each in noted}
