"""Listeners: what users write, what clients are told."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.broker.config import NetworkConfig
from tailrace.broker.listeners import (
    EVERYWHERE,
    Advertised,
    ConnectionInfo,
    Endpoint,
    Listener,
    parse_listeners,
)

names = st.from_regex(r"[A-Z0-9_.\-]{1,9}", fullmatch=True)
hosts = st.sampled_from(["", "h", "10.0.0.1", "::1", "a.b-c"])
listeners = st.builds(Listener, names, hosts, st.integers(0, 65_535)).filter(
    lambda each: each.name not in ("SSL", "SASL_SSL", "SASL_PLAINTEXT")
)


def client(listener: str, reached: Endpoint | None = None) -> ConnectionInfo:
    return ConnectionInfo("10.9.9.9", 5, listener, reached)


@given(st.lists(listeners, max_size=4, unique_by=lambda each: each.name))
def test_what_is_written_is_read_back(given_listeners: list[Listener]) -> None:
    texts = [str(each) for each in given_listeners]
    assert parse_listeners(texts, "listeners") == tuple(given_listeners)


def test_names_are_upper_case_as_in_kafka() -> None:
    assert parse_listeners(["host://h:1"], "listeners") == (Listener("HOST", "h", 1),)


@pytest.mark.parametrize(
    ("given_listeners", "told", "inter_broker", "words"),
    [
        ((), (), "", "at least one"),
        (("h:9092",), (), "", "'h:9092' is not NAME://HOST:PORT"),
        (("A://h",), (), "", "is not NAME://HOST:PORT"),
        (("A://h:65536",), (), "", "is not NAME://HOST:PORT"),
        (("A://::1:7",), (), "", "is not NAME://HOST:PORT"),
        (("A://a..b:7",), (), "", "is not NAME://HOST:PORT"),
        (("A://h:1",), (f"A://{'h' * 64}:7",), "", "is not NAME://HOST:PORT"),
        (("A://h:1", "a://h:2"), (), "", "two listeners are named A"),
        (("A://h:1", "B://h:1"), (), "", "an address of its own"),
        (("A://h:1",), ("B://h:1",), "", "advertised.listeners: B is none of the listeners (A)"),
        (("A://h:1",), ("A://0.0.0.0:1",), "", "nobody can connect to A://0.0.0.0:1"),
        (("A://h:1",), ("A://:1",), "", "nobody can connect"),
        (("A://h:1",), (), "B", "inter.broker.listener.name: B is none"),
    ],
)
def test_what_contradicts_itself_is_refused(
    given_listeners: tuple[str, ...], told: tuple[str, ...], inter_broker: str, words: str
) -> None:
    with pytest.raises(ValueError, match=r"listener") as refused:
        NetworkConfig(
            listeners=given_listeners,
            advertised_listeners=told,
            inter_broker_listener=inter_broker,
        )
    assert words in str(refused.value)


def test_ports_that_are_picked_may_be_asked_for_twice() -> None:
    NetworkConfig(listeners=("A://h:0", "B://h:0"))


def test_each_listener_has_its_address() -> None:
    network = NetworkConfig(
        listeners=("HOST://0.0.0.0:0", "IN://:8", "LO://127.0.0.1:9"),
        advertised_listeners=("HOST://public:0", "LO://lo:99"),
        inter_broker_listener="IN",
    )
    advertised = network.advertised(own_name="me")
    advertised.bound({"HOST": 7, "IN": 8, "LO": 9})
    assert dict(advertised.named) == {"HOST": ("public", 7), "IN": ("me", 8), "LO": ("lo", 99)}
    assert advertised.first == ("public", 7)
    assert advertised.inter_broker == ("me", 8)
    assert advertised.to(client("LO", Endpoint("127.0.0.1", 9))) == ("lo", 99)


YES_AND_NO = (True, False)


def test_who_listens_everywhere_and_was_told_nothing_answers_with_what_was_reached() -> None:
    hosts = (*EVERYWHERE, "h", "10.0.0.1")
    for host, is_told, as_reached, knows in product(hosts, YES_AND_NO, YES_AND_NO, YES_AND_NO):
        told = [Listener("A", "told", 1)] if is_told else []
        reached = Endpoint("10.1.1.1", 77) if knows else None
        advertised = Advertised([Listener("A", host, 9)], told, as_reached=as_reached)
        expected = Endpoint(host, 9)
        if is_told:
            expected = Endpoint("told", 1)
        elif host in EVERYWHERE and as_reached and reached is not None:
            expected = reached
        elif host in EVERYWHERE:
            expected = Endpoint("localhost", 9)
        assert advertised.to(client("A", reached)) == expected


def test_addresses_as_clients_take_them() -> None:
    assert [str(Endpoint("h", 1)), str(Endpoint("::1", 2))] == ["h:1", "[::1]:2"]
