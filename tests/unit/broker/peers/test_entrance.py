"""Requests between brokers over TLS: both sides are checked before anything is asked."""

import asyncio
from pathlib import Path

import pytest

from tailrace.broker.listeners import SecurityProtocol
from tailrace.broker.peers.config import InterBrokerConfig
from tailrace.broker.peers.entrance import entrance_of
from tailrace.broker.peers.errors import PeerUnavailable
from tailrace.broker.peers.peers import Peers
from tailrace.core.runtime.config import ConfigError, Secret
from tailrace.core.runtime.metrics import Metrics
from tailrace.core.security.tls_config import TlsConfig
from tailrace.core.security.tls_server import TlsServer
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.kafka.apis import HEARTBEAT, SASL_AUTHENTICATE, SASL_HANDSHAKE
from tailrace.protocol.kafka.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from tailrace.protocol.kafka.messages.sasl_authenticate import SaslAuthenticateResponse
from tailrace.protocol.kafka.messages.sasl_handshake import SaslHandshakeResponse
from tests.certificates import Authority
from tests.unit.broker.loops import in_loop, until
from tests.unit.broker.peers.support import At, MovingPlaces, OtherBroker

SOON_S = 15.0


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("keys"))


def stores(authority: Authority, name: str = "broker", host: str = "127.0.0.1") -> TlsConfig:
    return TlsConfig(
        keystore_location=authority.store(name, host),
        truststore_location=authority.certificate,
        client_auth="required",
    )


def listening(config: TlsConfig) -> OtherBroker:
    return OtherBroker(tls=TlsServer(config).context)


class World:
    """This broker's side; broker 2 is another."""

    def __init__(self, at: At, tls: TlsConfig, identification: str = "https") -> None:
        assert identification in ("https", "")
        config = InterBrokerConfig(identification=identification)  # type: ignore[arg-type]
        places = MovingPlaces()
        places.move(2, at)
        way = SecurityProtocol.SSL, tls, config.identification
        entrance = entrance_of(*way, config.login)
        self.peers = Peers(places, "broker-1", entrance)

    async def ask(self, timeout_s: float = SOON_S) -> HeartbeatResponse:
        return await self.peers.send(2, HEARTBEAT, HeartbeatRequest(group_id="g"), timeout_s)


def test_both_certificates_are_checked(authority: Authority, tmp_path: Path) -> None:
    @in_loop
    async def run() -> None:
        others = Authority(tmp_path / "others")
        async with listening(stores(authority)) as other:
            world = World(other.at, stores(authority, "me", "here"))
            answer = asyncio.create_task(world.ask())
            (await other.asked.get()).answer(HeartbeatResponse(error_code=5))
            assert (await answer).error_code == 5
            await world.peers.close()

            stranger = TlsConfig(
                keystore_location=others.store("stranger"),
                truststore_location=authority.certificate,
            )
            world = World(other.at, stranger)
            with pytest.raises(PeerUnavailable, match="cannot be reached"):
                await world.ask()
            await world.peers.close()
            world = World(other.at, stores(others))
            with pytest.raises(PeerUnavailable, match="CERTIFICATE_VERIFY_FAILED"):
                await world.ask()
            await world.peers.close()
            assert other.asked.empty()

    run()


def test_the_name_in_a_certificate_is_the_one_that_is_reached(authority: Authority) -> None:
    @in_loop
    async def run() -> None:
        async with listening(stores(authority, "elsewhere", "else.where")) as other:
            world = World(other.at, stores(authority, "me"))
            with pytest.raises(PeerUnavailable, match="IP address mismatch"):
                await world.ask()
            await world.peers.close()
            world = World(other.at, stores(authority, "me"), identification="")
            answer = asyncio.create_task(world.ask())
            (await other.asked.get()).answer(HeartbeatResponse(error_code=5))
            await answer
            await world.peers.close()

    run()


def test_new_connections_show_a_certificate_that_has_changed(
    authority: Authority, tmp_path: Path
) -> None:
    @in_loop
    async def run() -> None:
        mine = tmp_path / "mine.pem"
        mine.write_bytes(Authority(tmp_path / "others").store("me").read_bytes())
        config = TlsConfig(keystore_location=mine, truststore_location=authority.certificate)
        async with listening(stores(authority)) as other:
            world = World(other.at, config)
            metrics = Metrics()
            world.peers.start(metrics)
            with pytest.raises(PeerUnavailable):
                await world.ask()
            mine.write_bytes(authority.store("renewed").read_bytes())
            await until(lambda: metrics.snapshot()["broker_peers_tls_reloads_total"] == 1)
            answer = asyncio.create_task(world.ask())
            (await other.asked.get()).answer(HeartbeatResponse(error_code=0))
            assert (await answer).error_code == 0
            await world.peers.close()

    run()


JAAS = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    'username="me" password="sesame";'
)
PLAIN = InterBrokerConfig(mechanism="PLAIN", jaas=Secret(JAAS))


def logging_in(at: At) -> Peers:
    places = MovingPlaces()
    places.move(2, at)
    return Peers(
        places,
        "broker-1",
        entrance_of(SecurityProtocol.SASL_PLAINTEXT, TlsConfig(), "https", PLAIN.login),
    )


async def let_in(other: OtherBroker, lasts_ms: int = 0) -> None:
    """Answer a log-in."""
    handshake = await other.asked.get()
    assert (handshake.api, handshake.version) == (SASL_HANDSHAKE, 1)
    assert handshake.request.mechanism == "PLAIN"
    handshake.answer(SaslHandshakeResponse(error_code=0, mechanisms=["PLAIN"]))
    asked = await other.asked.get()
    assert (asked.api, asked.version) == (SASL_AUTHENTICATE, 2)
    assert bytes(asked.request.auth_bytes) == b"\0me\0sesame"
    asked.answer(
        SaslAuthenticateResponse(
            error_code=0, error_message=None, auth_bytes=b"", session_lifetime_ms=lasts_ms
        )
    )


async def heartbeat(peers: Peers, other: OtherBroker, *sessions_ms: int) -> None:
    """Ask something; as many log-ins come first as sessions are given."""
    request = HeartbeatRequest(group_id="g")
    answer = asyncio.create_task(peers.send(2, HEARTBEAT, request, SOON_S))
    for lasts_ms in sessions_ms:
        await let_in(other, lasts_ms)
    (await other.asked.get()).answer(HeartbeatResponse(error_code=5))
    assert (await answer).error_code == 5


@in_loop
async def test_a_log_in_comes_first_and_again_when_the_session_is_over() -> None:
    async with OtherBroker() as other:
        peers = logging_in(other.at)
        await heartbeat(peers, other, 1)
        over_s = asyncio.get_running_loop().time() + 0.001
        await until(lambda: asyncio.get_running_loop().time() > over_s)
        await heartbeat(peers, other, 3_600_000)
        await heartbeat(peers, other)
        assert other.connections == 1
        await peers.close()


@pytest.mark.parametrize("at_step", [0, 1])
def test_a_refusal_ends_the_connection_and_shows_no_password(at_step: int) -> None:
    @in_loop
    async def run() -> None:
        async with OtherBroker() as other:
            peers = logging_in(other.at)
            request = HeartbeatRequest(group_id="g")
            answer = asyncio.create_task(peers.send(2, HEARTBEAT, request, SOON_S))
            handshake = await other.asked.get()
            code = 0 if at_step else ErrorCode.UNSUPPORTED_SASL_MECHANISM
            handshake.answer(SaslHandshakeResponse(error_code=code, mechanisms=["GSSAPI"]))
            if at_step:
                refused = SaslAuthenticateResponse(
                    error_code=ErrorCode.SASL_AUTHENTICATION_FAILED,
                    error_message="no" * 1000,
                    auth_bytes=b"",
                    session_lifetime_ms=0,
                )
                (await other.asked.get()).answer(refused)
            with pytest.raises(PeerUnavailable) as failed:
                await answer
            assert "sesame" not in str(failed.value)
            assert len(str(failed.value)) < 400
            await other.lost.wait()
            await peers.close()

    run()


def test_a_password_that_is_missing_is_found_before_the_start() -> None:
    with pytest.raises(ConfigError, match=r"sasl.jaas.config: SCRAM-SHA-256 needs it"):
        entrance_of(SecurityProtocol.SASL_SSL, TlsConfig(), "https", InterBrokerConfig().login)
