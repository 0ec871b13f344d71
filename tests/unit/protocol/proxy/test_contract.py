"""The contract of the serving layer: its generated code, its numbers and its bytes."""

import subprocess
from pathlib import Path

import pytest

from tailrace.protocol.proxy.checksum import request_checksum
from tailrace.protocol.proxy.common_pb2 import Dlsn, StatusCode
from tailrace.protocol.proxy.methods import READ_PROXY, WRITE_PROXY
from tailrace.protocol.proxy.write_proxy_pb2 import (
    ServerInfo,
    SetAcceptNewStreamRequest,
    WriteContext,
    WriteRequest,
    WriterSequence,
)
from tests.rooms import ROOT

FOLDER = Path("tailrace/protocol/proxy")
CODES = {
    200: "SUCCESS", 301: "CLIENT_CLOSED", 302: "FOUND", 403: "REQUEST_DENIED",
    413: "TOO_LARGE_RECORD", 500: "INTERNAL_SERVER_ERROR", 501: "NOT_IMPLEMENTED",
    502: "ALREADY_CLOSED_EXCEPTION", 503: "SERVICE_UNAVAILABLE", 504: "LOCKING_EXCEPTION",
    505: "ZOOKEEPER_ERROR", 506: "METADATA_EXCEPTION", 507: "BK_TRANSMIT_ERROR",
    508: "FLUSH_TIMEOUT", 509: "LOG_EMPTY", 510: "LOG_NOT_FOUND", 511: "TRUNCATED_TRANSACTION",
    512: "END_OF_STREAM", 513: "TRANSACTION_OUT_OF_ORDER", 514: "WRITE_EXCEPTION",
    515: "STREAM_UNAVAILABLE", 516: "WRITE_CANCELLED_EXCEPTION", 517: "OVER_CAPACITY",
    518: "STREAM_NOT_READY", 519: "REGION_UNAVAILABLE", 520: "INVALID_ENVELOPED_ENTRY",
    521: "UNSUPPORTED_METADATA_VERSION", 522: "LOG_EXISTS", 523: "CHECKSUM_FAILED",
    524: "TOO_MANY_STREAMS", 525: "LOG_SEGMENT_NOT_FOUND", 526: "END_OF_LOG_SEGMENT",
    527: "LOG_SEGMENT_IS_TRUNCATED", 600: "UNEXPECTED", 601: "INTERRUPTED",
    602: "INVALID_STREAM_NAME", 603: "ILLEGAL_STATE", 1000: "RETRYABLE_READ_EXCEPTION",
    1001: "LOG_READ_ERROR", 1002: "READ_CANCELLED_EXCEPTION",
}  # fmt: skip


def test_generated_code_is_that_of_the_protos(tmp_path: Path) -> None:
    made = subprocess.run(
        ["make", "proto", f"PROTO_OUT={tmp_path}"],
        cwd=ROOT, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert made.returncode == 0, made.stdout + made.stderr
    there = {path.name: path.read_text() for path in (ROOT / FOLDER).glob("*_pb2*")}
    again = {path.name: path.read_text() for path in (tmp_path / FOLDER).iterdir()}
    assert again == there, "run `make proto`"


def test_codes_are_those_of_distributedlog() -> None:
    known = {StatusCode.Name(number): number for number in StatusCode.values()}
    del known["STATUS_CODE_UNSPECIFIED"]
    assert known == {name: number for number, name in CODES.items()}
    status = {name: number for name, number in ServerInfo.ServerStatus.items() if number}
    assert status == {"WRITE_AND_ACCEPT": 100, "WRITE_ONLY": 200, "DOWN": 300}


@pytest.mark.parametrize(
    ("payloads", "checksum"),
    [((b"hello",), 789460231), ((), 4202920725), ((b"he", b"llo"), 789460231)],
)
def test_a_checksum_is_that_of_distributedlogs_clients(
    payloads: tuple[bytes, ...], checksum: int
) -> None:
    assert request_checksum("stream-1", *payloads) == checksum


def test_the_bytes_of_a_write() -> None:
    """Field numbers and kinds: what programs of others were generated from."""
    request = WriteRequest(
        stream="s",
        payload=b"p",
        context=WriteContext(
            tried_hosts=["h:1"],
            crc32=0x01020304,
            writer=WriterSequence(writer_id=b"w", sequence=7),
        ),
    )
    context = b"\x0a\x03h:1" + b"\x15\x04\x03\x02\x01" + b"\x22\x05\x0a\x01w\x10\x07"
    expected = b"\x0a\x01s" + b"\x12\x01p" + b"\x1a" + bytes([len(context)]) + context
    assert request.SerializeToString(deterministic=True) == expected
    assert WriteRequest.FromString(expected) == request
    place = Dlsn(log_segment_sequence_number=1, entry_id=2, slot_id=3)
    assert place.SerializeToString() == b"\x08\x01\x10\x02\x18\x03"


def test_methods_are_those_of_the_services() -> None:
    kinds = {
        each.path: (each.is_request_stream, each.is_response_stream)
        for service in (WRITE_PROXY, READ_PROXY)
        for each in service.methods.values()
    }
    assert kinds == {
        "/tailrace.proxy.v1.WriteProxy/Handshake": (False, False),
        "/tailrace.proxy.v1.WriteProxy/GetOwner": (False, False),
        "/tailrace.proxy.v1.WriteProxy/Write": (False, False),
        "/tailrace.proxy.v1.WriteProxy/WriteBulk": (False, False),
        "/tailrace.proxy.v1.WriteProxy/WriteStream": (True, True),
        "/tailrace.proxy.v1.WriteProxy/Heartbeat": (False, False),
        "/tailrace.proxy.v1.WriteProxy/Truncate": (False, False),
        "/tailrace.proxy.v1.WriteProxy/Create": (False, False),
        "/tailrace.proxy.v1.WriteProxy/Delete": (False, False),
        "/tailrace.proxy.v1.WriteProxy/Release": (False, False),
        "/tailrace.proxy.v1.WriteProxy/SetAcceptNewStream": (False, False),
        "/tailrace.proxy.v1.ReadProxy/Read": (False, True),
        "/tailrace.proxy.v1.ReadProxy/ReadLast": (False, False),
        "/tailrace.proxy.v1.ReadProxy/ListSegments": (False, False),
    }
    assert WRITE_PROXY.methods["set_accept_new_stream"].request is SetAcceptNewStreamRequest
