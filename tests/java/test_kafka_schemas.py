"""Every declared message equals Kafka 4.3.1's own schema, field by field, as far as we speak it."""

import dataclasses
import json
import re
import zipfile
from typing import Any

import pytest

from tailrace.protocol.kafka.apis import APIS, NEVER
from tailrace.protocol.kafka.messages import consumer_group_records as group_records
from tailrace.protocol.kafka.messages import consumer_protocol, headers
from tailrace.protocol.kafka.messages import coordinator_records as records
from tailrace.protocol.kafka.messages import transaction_records as transactions
from tailrace.protocol.kafka.primitives import NO_UUID, Kind
from tailrace.protocol.kafka.wire import Array, Wire
from tests.java.jars import jars

pytestmark = pytest.mark.java

EVERY = 32767
MESSAGES = [
    (cls, api.versions, api.flexible_since, api.key)
    for api in APIS.values()
    for cls in (api.request, api.response)
]
HEADERS = [
    (headers.RequestHeader, range(1, 3), 2, None),
    (headers.ResponseHeader, range(2), 1, None),
]
COORDINATOR = [
    (records.OffsetCommitKey, range(1), NEVER, records.OFFSET_COMMIT_TYPE),
    (records.OffsetCommitValue, range(5), 4, records.OFFSET_COMMIT_TYPE),
    (records.GroupMetadataKey, range(1), NEVER, records.GROUP_METADATA_TYPE),
    (records.GroupMetadataValue, range(5), 4, records.GROUP_METADATA_TYPE),
    (transactions.TransactionLogKey, range(1), NEVER, transactions.TRANSACTION_TYPE),
    (transactions.TransactionLogValue, range(2), 1, transactions.TRANSACTION_TYPE),
]
CONSUMER_GROUPS = [
    case
    for kind, (key, value) in group_records.RECORD_TYPES.items()
    for case in ((key, range(1), NEVER, kind), (value, range(1), 0, kind))
]
EMBEDDED = [
    (consumer_protocol.ConsumerProtocolSubscription, range(1, 4), NEVER, None),  # 0: a part of 1
    (consumer_protocol.ConsumerProtocolAssignment, range(4), NEVER, None),
]
CASES = [*MESSAGES, *HEADERS, *COORDINATOR, *CONSUMER_GROUPS, *EMBEDDED]


_WITH_SCHEMAS = ("kafka-clients", "kafka-group-coordinator", "kafka-transaction-coordinator")


@pytest.fixture(scope="module")
def schemas() -> dict[str, Any]:
    """Kafka's schemas by message name."""
    found = {}
    for jar in jars("clients"):
        if not jar.name.startswith(_WITH_SCHEMAS):
            continue
        with zipfile.ZipFile(jar) as archive:
            for name in archive.namelist():
                if re.fullmatch(r"common/message/\w+\.json", name):
                    schema = _parse(archive.read(name).decode())
                    found[schema["name"]] = schema
    return found


def _parse(text: str) -> Any:
    """Parse Kafka's JSON, which has comments in lines of their own."""
    return json.loads(re.sub(r"^\s*//.*$", "", text, flags=re.MULTILINE))


@pytest.mark.parametrize(
    ("message", "versions", "flexible_since", "key"), CASES, ids=[c[0].__name__ for c in CASES]
)
def test_declared_as_kafka_does(
    schemas: dict[str, Any], message: type[Any], versions: range, flexible_since: int, key: int
) -> None:
    schema = schemas[message.__name__]
    structs = {struct["name"]: struct["fields"] for struct in schema.get("commonStructs", ())}
    valid = _versions(schema["validVersions"])
    assert versions[0] in valid
    assert versions[-1] in valid
    assert key == schema.get("apiKey")
    assert min(_versions(schema["flexibleVersions"]), default=NEVER) == flexible_since
    _compare(message, schema["fields"], structs, versions)


def test_nothing_below_kafkas_oldest_version_is_left_out(schemas: dict[str, Any]) -> None:
    for api in APIS.values():
        assert api.versions.start == _versions(schemas[f"{api.name}Request"]["validVersions"])[0]


def _compare(
    message: type[Any], fields: list[Any], structs: dict[str, Any], versions: range
) -> None:
    """Compare one struct and what it holds; fields outside our versions are not declared."""
    fields = [{"versions": field.get("taggedVersions"), **field} for field in fields]
    wanted = [f for f in fields if any(v in _versions(f["versions"]) for v in versions)]
    ours = dataclasses.fields(message)
    assert [f.name for f in ours] == [_snake(f["name"]) for f in wanted]
    for our, field in zip(ours, wanted, strict=True):
        spec: Wire = our.metadata["wire"]
        where = f"{message.__name__}.{our.name}"
        assert _type_name(spec.kind) == field["type"], where
        for version in versions:
            present = version in _versions(field["versions"])
            nullable = version in _versions(field.get("nullableVersions", "none"))
            tagged = version in _versions(field.get("taggedVersions", "none"))
            assert spec.present(version) == present, (where, version)
            assert (spec.nullable(version) and present) == (nullable and present), (where, version)
            assert (spec.tag is not None and present) == tagged, (where, version)
        assert spec.tag == field.get("tag"), where
        assert spec.flexible == (field.get("flexibleVersions") != "none"), where
        assert our.default == _default(field, our.default), where
        inner = field.get("fields") or structs.get(field["type"].removeprefix("[]"))
        if inner:
            element = spec.kind.element if isinstance(spec.kind, Array) else spec.kind
            assert isinstance(element, type)
            _compare(element, inner, structs, versions)


def _type_name(kind: Any) -> str:
    if isinstance(kind, Array):
        return f"[]{_type_name(kind.element)}"
    if isinstance(kind, Kind):
        return kind.name
    return str(kind.__name__).removeprefix("Response")  # where a request has another of its name


def _default(field: dict[str, Any], ours: Any) -> Any:
    """Return the default that Kafka's generator gives the field."""
    kind, given = field["type"], field.get("default")
    if given == "null":
        return None
    if kind.startswith("[]"):
        return ()
    if kind == "bool":
        return str(given).lower() == "true"
    if kind.startswith(("int", "float")):
        return float(given or 0) if kind == "float64" else int(str(given or 0), 0)
    simple = {"string": given or "", "bytes": b"", "uuid": NO_UUID, "records": None}
    return simple[kind] if kind in simple else type(ours)()  # a struct: itself with its defaults


def _versions(text: str) -> range:
    if text == "none":
        return range(0)
    first, _, last = text.rstrip("+").partition("-")
    stop = EVERY if text.endswith("+") else int(last or first) + 1
    return range(int(first), stop)


def _snake(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()
