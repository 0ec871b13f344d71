"""`TailraceContainer`: a Tailrace broker in a container, for Testcontainers' users.

with TailraceContainer() as kafka:
    Producer({"bootstrap.servers": kafka.get_bootstrap_server()})

Needs `pip install '.[testcontainers]'` in a checkout, Docker, and the image (`make image`). It has
the methods of Testcontainers' own KafkaContainer, and differs where people suffer from that one: it
is ready when it answers a Metadata request, not when a line is in its log; it keeps its mapped port
over a restart; and clients in containers reach it by any alias without configuration.
"""

import re
import socket
import time
from collections.abc import Mapping
from ipaddress import ip_network
from typing import Final, Self

from docker.errors import APIError
from testcontainers.core.config import ConnectionMode
from testcontainers.core.container import DockerContainer
from typing_extensions import override

from tailrace.testing.metadata import answers

IMAGE: Final = "tailrace:latest"
PORT: Final = 9092
"""Of the listener for clients on the host; mapped to a port of the host."""
NETWORK_PORT: Final = 19092
"""Of the listener for clients in containers of the same network."""
_LISTENERS: Final = "TAILRACE_LISTENERS"
_ADVERTISED: Final = "TAILRACE_ADVERTISED_LISTENERS"
_ATTEMPTS_MAX: Final = 10
_POLL_S: Final = 0.05
_ANSWER_S: Final = 1.0


class TailraceContainer(DockerContainer):
    """A broker whose clients on the host and in other containers need no configuration.

    >>> network = Network().create()
    >>> kafka = TailraceContainer().with_network(network).with_network_aliases("kafka")
    >>> kafka.start().get_bootstrap_server()        # for clients on the host
    >>> kafka.get_network_bootstrap_server()        # "kafka:19092", for clients in the network

    The mapped port is a free one, unless `with_bind_ports(9092, PORT)` says which. Whoever sets
    `listeners` or `advertised.listeners` has them as they are, and is told nothing by this class.
    """

    def __init__(
        self, image: str = IMAGE, *, start_timeout_s: float = 60.0, **kwargs: object
    ) -> None:
        """`start_timeout_s`: how long a start may take; other words go to DockerContainer."""
        super().__init__(image, **kwargs)  # type: ignore[arg-type]  # its own, as they come
        self.start_timeout_s = start_timeout_s
        self._told: str | None = None
        self.with_setting("group.initial.rebalance.delay.ms", 0)

    def with_setting(self, name: str, value: object) -> Self:
        """Set one of the broker's settings, by Kafka's names."""
        text = str(value).lower() if isinstance(value, bool) else str(value)
        return self.with_env("TAILRACE_" + re.sub(r"[.\-]", "_", name).upper(), text)

    def with_kraft(self) -> Self:
        """Change nothing: for those who come from KafkaContainer, where it avoids a ZooKeeper."""
        return self

    def get_bootstrap_server(self) -> str:
        """Return HOST:PORT for clients on the host. Errors: those of `get_exposed_port`."""
        return f"{self.get_container_host_ip()}:{self.get_exposed_port(PORT)}"

    def get_network_bootstrap_server(self) -> str:
        """Return HOST:PORT for clients in other containers, by the first alias if there is one.

        Without a network of one's own it is the address: names work in such networks only.
        """
        if self._network is None or not self._network_aliases:
            container_id = self.get_container_id()
            return f"{self.get_docker_client().bridge_ip(container_id)}:{NETWORK_PORT}"
        return f"{self._network_aliases[0]}:{NETWORK_PORT}"

    @override
    def start(self, timeout: float | None = None) -> Self:
        """Start it and return when it answers Metadata. `timeout`: seconds, instead of the usual.

        Errors: TimeoutError with its log; RuntimeError with its log if it ended; Docker's own.
        """
        is_chosen = self._mapped_port() is not None
        for attempt in range(1, _ATTEMPTS_MAX + 1):
            if not is_chosen:
                self.with_bind_ports(PORT, _free_port())
            self._tell_clients()
            try:
                super().start()
                break
            except APIError as error:
                if is_chosen or not _is_taken(error) or attempt == _ATTEMPTS_MAX:
                    raise
                self.stop()  # what was created and could not be started
        self._wait_until_it_answers(timeout)
        return self

    def restart(self) -> Self:
        """Stop it in order and start it again: same data, same mapped port. Errors: as `start`."""
        self.get_wrapped_container().restart()
        self._wait_until_it_answers(None)
        return self

    def _mapped_port(self) -> int | None:
        port = self.ports.get(str(PORT)) or self.ports.get(f"{PORT}/tcp")
        return int(port) if isinstance(port, int | str) else None

    def _tell_clients(self) -> None:
        """Say before the start where clients on the host connect: later it would be too late."""
        if _LISTENERS in self.env or self.env.get(_ADVERTISED) != self._told:
            return  # the user says it
        client = self.get_docker_client()
        mode = client.get_connection_mode()
        if mode is ConnectionMode.bridge_ip:
            told = ""  # they reach the container itself: it sees the address they use
        elif mode is ConnectionMode.gateway_ip:
            name = self._network.name if self._network is not None else "bridge"
            config = client.client.networks.get(name).attrs["IPAM"]["Config"][0]
            told = f"HOST://{_gateway(config)}:{self._mapped_port()}"
        else:
            told = f"HOST://{client.host()}:{self._mapped_port()}"
        self._told = told
        self.with_env(_ADVERTISED, told)

    def _wait_until_it_answers(self, timeout: float | None) -> None:
        limit_s = self.start_timeout_s if timeout is None else timeout
        deadline = time.monotonic() + limit_s
        host, port = self.get_container_host_ip(), self.get_exposed_port(PORT)
        while not answers(host, port, _ANSWER_S):
            container = self.get_wrapped_container()
            container.reload()
            if container.status in ("exited", "dead"):
                raise RuntimeError(f"the container of {self.image} has ended:\n{self._log()}")
            if time.monotonic() > deadline:
                raise TimeoutError(
                    f"the container of {self.image} did not answer on {host}:{port} within "
                    f"{limit_s:g} s; on a busy machine give a longer start_timeout_s. Its log:\n"
                    f"{self._log()}"
                )
            time.sleep(_POLL_S)

    def _log(self) -> str:
        return str(self.get_wrapped_container().logs(tail=100).decode(errors="replace"))


def _free_port() -> int:
    """Return a port that is free here; on another machine Docker says whether it is there too."""
    with socket.create_server(("", 0)) as server:
        return int(server.getsockname()[1])


def _gateway(config: Mapping[str, str]) -> str:
    """Return a network's gateway; the default network's is not stated, but its first address."""
    first = next(ip_network(config["Subnet"]).hosts())
    return config.get("Gateway") or str(first)


def _is_taken(error: APIError) -> bool:
    said = str(error)
    return "port is already allocated" in said or "address already in use" in said
