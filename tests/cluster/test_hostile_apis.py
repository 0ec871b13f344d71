"""Every API that is served, in every version, asked for anything by well-formed requests.

An API is covered as soon as it is in the table. It answers with Kafka's codes; the
connection lives on, nothing fails inside, memory is bounded (`hostile`).
"""

import os
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.kafka.api import Api
from tailrace.protocol.kafka.apis import API_VERSIONS, APIS, PRODUCE
from tailrace.protocol.kafka.messages.api_versions import ApiVersionsRequest
from tests.cluster.any_requests import (
    GROUP,
    TOPIC,
    TRANSACTIONAL_ID,
    Asked,
    any_requests,
    error_codes,
)
from tests.cluster.raw import (
    RawClient,
    topic_id,
    wait_for_group,
    wait_for_producer,
)
from tests.process import TailraceProcess

EXAMPLES = int(os.environ.get("HOSTILE_EXAMPLES", "12"))
"""Requests of each API; `make`'s run is a sample, a thorough one takes hundreds."""

SAYS_UNKNOWN = {"WriteTxnMarkers": "a negative producer id or epoch, which no batch can have"}
"""APIs that may say UNKNOWN_SERVER_ERROR, and for what: Kafka does so too."""


@pytest.fixture
def known_id(small_broker: TailraceProcess) -> bytes:
    """The id of a topic that is there, as are a group and a producer, until a request ends them."""
    with RawClient(small_broker) as client:
        wait_for_group(client, GROUP)
        wait_for_producer(client, TRANSACTIONAL_ID)
        return topic_id(client, TOPIC)  # made by asking for it


each = pytest.mark.parametrize("api", APIS.values(), ids=[api.name for api in APIS.values()])


@each
def test_every_version_is_answered(
    hostile: TailraceProcess, known_id: bytes, api: Api[Any, Any]
) -> None:
    """Asked for nothing at all: every field has its default."""
    with RawClient(hostile) as client:
        for version in api.versions:
            request = api.request()
            if api is PRODUCE:
                request.acks = -1
            answer = client.ask(api, version, request)
            assert set(error_codes(answer)) <= set(ErrorCode) - {ErrorCode.UNKNOWN_SERVER_ERROR}


@each
def test_any_request_is_answered(
    hostile: TailraceProcess, known_id: bytes, api: Api[Any, Any]
) -> None:
    @settings(
        max_examples=EXAMPLES,
        derandomize="HOSTILE_EXAMPLES" not in os.environ,  # by hand others each time
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    @given(asked=any_requests(api, known_id))
    def check(asked: Asked) -> None:
        version, request = asked.version, asked.message()
        with RawClient(hostile) as client:
            if api is PRODUCE and request.acks == 0:
                client.send(api, version, request)  # no answer, or the end: the client's choice
                return
            answer = client.ask(api, version, request)
            unknown = {code for code in error_codes(answer) if code not in set(ErrorCode)}
            assert not unknown
            if api.name not in SAYS_UNKNOWN:
                assert ErrorCode.UNKNOWN_SERVER_ERROR not in error_codes(answer)
            hello = ApiVersionsRequest(client_software_name="a", client_software_version="1")
            assert client.ask(API_VERSIONS, 3, hello).error_code == 0

    check()
