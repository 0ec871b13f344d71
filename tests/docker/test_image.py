"""The image as its users run it: ready, small, not root, read-only, two listeners, its ends."""

import json
import socket
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from time import monotonic, sleep

import pytest

from tailrace.testing.metadata import answers
from tests.docker import images
from tests.docker.clients import CLIENTS, from_a_container, from_the_host
from tests.docker.conftest import Built
from tests.docker.engine import docker, said_by
from tests.ports import free_port

SIZE_MAX = 183 * 1_000_000
"""Of it 17 MB are gRPC's core, for proxies, and 17 MB cryptography, for key stores."""
RSS_MAX_KIB = 150 * 1024
READY_WITHIN_S = 60


@pytest.fixture
def network(daemon: None) -> Iterator[str]:
    name = f"tailrace-test-{free_port()}"
    docker("network", "create", name)
    yield name
    docker("network", "rm", name)


@pytest.fixture
def volume(daemon: None) -> Iterator[str]:
    name = docker("volume", "create")
    yield name
    docker("volume", "rm", name)


def wait_until_ready(port: int, container: str) -> None:
    deadline = monotonic() + READY_WITHIN_S
    while not answers("127.0.0.1", port, 1):
        is_running = docker("inspect", container, "--format", "{{.State.Running}}") == "true"
        assert is_running, said_by(container)
        assert monotonic() < deadline, said_by(container)
        sleep(0.02)


def test_it_is_small_and_says_what_it_is_made_of(image: Built) -> None:
    above = images.size_of(image.name) - images.size_of(image.base)
    print(f"image: {above / 1e6:.0f} MB above {image.base}")
    assert above <= SIZE_MAX
    command = ("run", "--rm", "--entrypoint", "sh", image.name, "-c")
    listing = json.loads(docker(*command, "cat /opt/tailrace/sbom.cdx.json"))
    assert (listing["bomFormat"], listing["specVersion"]) == ("CycloneDX", "1.5")
    listed = {each["purl"].partition("?")[0].rpartition("@")[0] for each in listing["components"]}
    assert {"pkg:pypi/tailrace", "pkg:pypi/numpy", "pkg:deb/debian/libc6"} <= listed
    assert "pkg:pypi/hatchling" not in listed
    tools = docker(*command, "for t in gcc cc make ld tailrace; do command -v $t; done; true")
    assert tools == "/opt/tailrace/bin/tailrace"
    labels = json.loads(docker("inspect", image.name, "--format", "{{json .Config.Labels}}"))
    assert labels["org.opencontainers.image.licenses"] == "Apache-2.0"
    assert labels["org.opencontainers.image.revision"] == "test"
    assert labels["org.opencontainers.image.version"] == version("tailrace")


def test_clients_of_host_and_network_need_no_configuration(
    image: Built, network: str, left_behind: list[str], site_packages: Path
) -> None:
    # The port has to be 9092: what the image tells clients of the host.
    with socket.socket() as probe:
        if probe.connect_ex(("127.0.0.1", 9092)) == 0:
            pytest.skip("something listens on 127.0.0.1:9092")
    started = monotonic()
    options = ("--detach", "--read-only", "--cap-drop", "ALL", "--publish", "127.0.0.1:9092:9092")
    container = docker(
        "run", *options, "--network", network, "--network-alias", "kafka", image.name
    )
    left_behind.append(container)
    wait_until_ready(9092, container)
    print(f"ready {monotonic() - started:.2f} s after docker run")
    rss_kib = int(docker("exec", container, "awk", "/^VmRSS/ {print $2}", "/proc/1/status"))
    print(f"idle: {rss_kib / 1024:.0f} MiB of RSS")
    assert rss_kib < RSS_MAX_KIB
    assert docker("exec", container, "id", "-u") == "10001"
    for client in CLIENTS:
        said = f"{client} read 20 records"
        assert from_the_host(client, "localhost:9092") == said
        assert from_a_container(client, "kafka:19092", network, site_packages) == said
    assert "answers" in docker("exec", container, "python", "-I", "-m", "tailrace.health")
    docker("stop", "--time", "30", container)
    state = json.loads(docker("inspect", container, "--format", "{{json .State}}"))
    assert (state["ExitCode"], state["OOMKilled"]) == (0, False), said_by(container)


def test_data_in_a_volume_outlives_a_kill_and_the_container(
    image: Built, volume: str, left_behind: list[str]
) -> None:
    port = free_port()
    options = ("--volume", f"{volume}:/var/lib/tailrace", "--publish", f"127.0.0.1:{port}:9092")
    told = ("--env", f"TAILRACE_ADVERTISED_LISTENERS=HOST://localhost:{port}")
    topics = set()
    for how in ("kill", "stop"):
        container = docker("run", "--detach", *options, *told, image.name, "--set", "node.id=7")
        left_behind.append(container)
        wait_until_ready(port, container)
        assert "read 20" in from_the_host("confluent-kafka", f"localhost:{port}")
        listed = json.loads(docker("exec", container, "tailrace", "topic", "list", "--json"))
        found = {each["topic"] for each in listed}
        assert topics < found
        topics = found
        docker(how, container)


def test_an_unwritable_volume_and_a_wrong_setting_say_so_in_two_lines(
    image: Built, tmp_path: Path, left_behind: list[str]
) -> None:
    tmp_path.chmod(0o755)
    wrong = {
        "error: /var/lib/tailrace/tailrace.lock: Permission denied": (
            "--volume",
            f"{tmp_path}:/var/lib/tailrace",
            image.name,
        ),
        "did you mean num.partitions?": (image.name, "--set", "num.partition=3"),
        "HOST": ("--env", "TAILRACE_ADVERTISED_LISTENERS=OTHER://h:1", image.name),
    }
    for words, arguments in wrong.items():
        container = docker("create", *arguments)
        left_behind.append(container)
        docker("start", container)
        code = int(docker("wait", container))
        said = said_by(container)
        assert (code, words in said) == (1 if "denied" in words else 2, True), said
        assert "Traceback" not in said
        logged = " WARNING tailrace.processes.doors insecure: "  # what the entrypoint asks for
        assert len([line for line in said.splitlines() if logged not in line]) <= 2


def test_health_is_docker_s(image: Built, left_behind: list[str]) -> None:
    container = docker("run", "--detach", "--health-interval", "1s", image.name)
    left_behind.append(container)
    deadline = monotonic() + READY_WITHIN_S
    while docker("inspect", container, "--format", "{{.State.Health.Status}}") != "healthy":
        assert monotonic() < deadline, said_by(container)
        sleep(0.2)
