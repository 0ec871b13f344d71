"""Delegation tokens of a real broker: their bearers act for their owners, until they are over."""

import base64
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, NamedTuple

import pytest
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.kafka import apis
from tailrace.protocol.kafka.messages import create_delegation_token as create
from tailrace.protocol.kafka.messages import describe_delegation_token as describe
from tailrace.protocol.kafka.messages import expire_delegation_token as expire
from tailrace.protocol.kafka.messages.metadata import MetadataRequest
from tests.cluster.raw import Closed, RawClient
from tests.cluster.sasl_client import LogIn, LogInFailed, logged_in
from tests.ports import free_port
from tests.process import TailraceProcess

WITHIN_S: Final = 30
SECRET: Final = "the secret of the cluster's tokens"
ALICE: Final = LogIn("alice", "alice's password")
ASKED_MAX: Final = 1000
DAY_MS: Final = 86_400_000

Start = Callable[..., "Broker"]


class Broker(NamedTuple):
    """A broker whose first listener asks for SASL."""

    process: TailraceProcess
    listeners: str

    def start(self) -> None:
        self.process.start(self.listeners)


class Made(NamedTuple):
    """A token."""

    token_id: str
    hmac: bytes

    def bearer(self, hash_name: str = "sha256") -> LogIn:
        password = base64.b64encode(self.hmac).decode()
        return LogIn(self.token_id, password, by_token=True, hash_name=hash_name)


@pytest.fixture
def start(broker_factory: Callable[..., TailraceProcess]) -> Start:
    """Start a broker with a user; its first listener asks for SASL."""

    def start(*settings: str) -> Broker:
        given = ("sasl.enabled.mechanisms=SCRAM-SHA-256,SCRAM-SHA-512", *settings)
        secret = ("--set", f"delegation.token.secret.key={SECRET}")
        process = broker_factory(*(part for each in given for part in ("--set", each)), *secret)
        open_to_all = f"127.0.0.1:{free_port()}"
        listeners = f"SASL_PLAINTEXT://127.0.0.1:{free_port()},PLAINTEXT://{open_to_all}"
        broker = Broker(process, listeners)
        broker.start()
        admin = AdminClient({"bootstrap.servers": open_to_all})
        password = ALICE.password.encode()
        users = [
            UserScramCredentialUpsertion(
                "alice", ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096), password
            )
        ]
        admin.alter_user_scram_credentials(users)["alice"].result(WITHIN_S)
        return broker

    return start


def make(client: RawClient, lifetime_ms: int = -1) -> Made:
    request = create.CreateDelegationTokenRequest(max_lifetime_ms=lifetime_ms)
    answer = client.ask(apis.CREATE_DELEGATION_TOKEN, 3, request)
    assert answer.error_code == ErrorCode.NONE
    return Made(answer.token_id, bytes(answer.hmac))


def end(client: RawClient, token: Made, period_ms: int = -1) -> None:
    request = expire.ExpireDelegationTokenRequest(hmac=token.hmac, expiry_time_period_ms=period_ms)
    assert client.ask(apis.EXPIRE_DELEGATION_TOKEN, 2, request).error_code == ErrorCode.NONE


def shown(client: RawClient) -> dict[str, int]:
    """Return when the tokens end that a client sees, by their ids."""
    request = describe.DescribeDelegationTokenRequest(owners=None)
    answer = client.ask(apis.DESCRIBE_DELEGATION_TOKEN, 3, request)
    assert answer.error_code == ErrorCode.NONE
    return {each.token_id: each.expiry_timestamp for each in answer.tokens}


def is_let_in(broker: Broker, who: LogIn) -> bool:
    try:
        with logged_in(broker.process, who):
            return True
    except LogInFailed:
        return False


REQUESTS: Final[list[tuple[Any, Any]]] = [
    (apis.CREATE_DELEGATION_TOKEN, create.CreateDelegationTokenRequest(max_lifetime_ms=1)),
    (apis.EXPIRE_DELEGATION_TOKEN, expire.ExpireDelegationTokenRequest(hmac=b"any")),
    (apis.DESCRIBE_DELEGATION_TOKEN, describe.DescribeDelegationTokenRequest(owners=None)),
]


def test_a_bearer_acts_for_the_owner_and_makes_no_tokens(start: Start) -> None:
    broker = start()
    with logged_in(broker.process, ALICE) as alice:
        assert alice.lifetime_ms == 0
        token = make(alice.client)
        for hash_name in ("sha256", "sha512"):
            with logged_in(broker.process, token.bearer(hash_name)) as bearer:
                assert DAY_MS - 60_000 < bearer.lifetime_ms <= DAY_MS
                assert bearer.client.ask(apis.METADATA, 12, MetadataRequest(topics=[])).brokers
                for api, request in REQUESTS:
                    answer = bearer.client.ask(api, api.versions[-1], request)
                    assert answer.error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        wrong = [
            token.bearer()._replace(password="wrong"),
            token.bearer()._replace(by_token=False),
            token.bearer()._replace(user="another"),
            token.bearer()._replace(user="alice"),
            ALICE._replace(by_token=True),
        ]
        assert not any(is_let_in(broker, each) for each in wrong)
        end(alice.client, token)
    assert not is_let_in(broker, token.bearer())
    for secret in (SECRET, token.bearer().password, token.hmac.hex(), ALICE.password):
        assert secret not in broker.process.output


def test_a_token_that_ends_in_the_middle_ends_its_sessions(start: Start) -> None:
    broker = start()
    with logged_in(broker.process, ALICE) as alice:
        token = make(alice.client)
        end(alice.client, token, 1500)
        asked = 0
        with logged_in(broker.process, token.bearer()) as bearer, suppress(Closed):
            assert 0 < bearer.lifetime_ms <= 1500
            while asked < ASKED_MAX:
                bearer.client.ask(apis.METADATA, 12, MetadataRequest(topics=[]))
                bearer.client.wait(0.05)
                asked += 1
        assert 0 < asked < ASKED_MAX
        assert not is_let_in(broker, token.bearer())
        assert token.token_id in shown(alice.client)  # removed by and by


def test_what_was_answered_is_there_after_a_kill(start: Start) -> None:
    """Each round ends in the middle of a change: it happened or not, and nothing else did."""
    broker = start()
    kept: set[str] = set()
    for _ in range(3):
        with logged_in(broker.process, ALICE) as alice:
            gone, made = make(alice.client), make(alice.client)
            kept.add(made.token_id)
            end(alice.client, gone)
            api, request = REQUESTS[0]
            alice.client.send(api, 3, request)
            broker.process.kill()
        broker.start()
        with logged_in(broker.process, ALICE) as again:
            found = shown(again.client)
        assert kept <= found.keys()
        assert gone.token_id not in found
        assert is_let_in(broker, made.bearer())
        assert not is_let_in(broker, gone.bearer())


def test_without_a_secret_nobody_has_tokens(start: Start) -> None:
    broker = start()
    with logged_in(broker.process, ALICE) as alice:
        token = make(alice.client)
    broker.process.stop()
    broker.process.arguments = broker.process.arguments[:-2]
    broker.start()
    assert not is_let_in(broker, token.bearer())
    with logged_in(broker.process, ALICE) as alice:
        for api, request in REQUESTS:
            answer = alice.client.ask(api, api.versions[-1], request)
            assert answer.error_code == ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
