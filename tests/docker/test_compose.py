"""The compose files, run as docs/operations/containers.md says; other images are stood in for."""

import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pytest
import yaml

from tailrace.testing.metadata import answers
from tests.docker.clients import from_a_container, from_the_host
from tests.docker.composing import Project
from tests.docker.conftest import Built
from tests.docker.engine import ROOT
from tests.java.jars import jars, tool
from tests.ports import free_port

DOCKER = ROOT / "docker"
READY_WITHIN_S = 120
IS_SERVING = (
    "import socket; s = socket.create_connection(('127.0.0.1', 2181), 2); s.sendall(b'srvr'); "
    "assert b'Mode:' in s.recv(4096)"
)
SCRAPE = (
    "import sys; from urllib.request import urlopen; print(urlopen(sys.argv[1]).read().decode())"
)


@pytest.fixture
def project(image: Built) -> Iterator[Callable[..., Project]]:
    made: list[Project] = []

    def make(*files: Path, **variables: str) -> Project:
        name = f"tailrace-test-{free_port()}"
        made.append(Project(name, *files, IMAGE=image.name, **variables))
        return made[-1]

    yield make
    for each in made:
        each.close()


def wait_until_ready(port: int, project: Project) -> None:
    deadline = monotonic() + READY_WITHIN_S
    while not answers("127.0.0.1", port, 1):
        assert monotonic() < deadline, project.run("logs", "--no-color")
        sleep(0.05)


def test_one_node_and_its_data(project: Callable[..., Project], site_packages: Path) -> None:
    port = free_port()
    one = project(DOCKER / "compose.yaml", PORT=str(port))
    one.run("up", "--detach", "--no-build")
    wait_until_ready(port, one)
    assert "read 20" in from_the_host("aiokafka", f"localhost:{port}")
    network = f"{one.name}_default"
    said = from_a_container("confluent-kafka", "tailrace:19092", network, site_packages)
    assert "read 20" in said
    one.run("down")
    one.run("up", "--detach", "--no-build")
    wait_until_ready(port, one)
    listed = one.run("exec", "-T", "tailrace", "tailrace", "topic", "list", "--json")
    assert len(json.loads(listed)) == 2


def zookeeper_from_maven(folder: Path, base: str) -> dict[str, Any]:
    """Describe a ZooKeeper in a container that has only Python: Java and its jars are lent."""
    java = Path(tool("java")).resolve()
    home = java.parents[1]
    lent = {home, *(each.resolve().parent for each in home.glob("conf/*"))}
    lent |= {each.resolve().parent for each in home.rglob("*.security")}
    classpath = jars("zookeeper")
    config = folder / "zoo.cfg"
    config.write_text(
        "tickTime=2000\nclientPort=2181\ndataDir=/data\nadmin.enableServer=false\n"
        "4lw.commands.whitelist=srvr\n"
    )
    for each in (folder, *folder.parents[:2]):
        each.chmod(0o755)
    return {
        "image": base,
        "entrypoint": [str(java), "-Xmx128m", "-XX:TieredStopAtLevel=1", "-cp", "/jars/*"],
        "command": ["org.apache.zookeeper.server.quorum.QuorumPeerMain", "/zoo.cfg"],
        "volumes": [
            *(f"{each}:{each}:ro" for each in sorted(lent)),
            f"{os.path.commonpath(classpath)}:/jars:ro",
            f"{config}:/zoo.cfg:ro",
        ],
        "healthcheck": {"test": ["CMD", "python3", "-c", IS_SERVING]},
    }


@pytest.mark.java
def test_the_cluster(
    project: Callable[..., Project], image: Built, tmp_path: Path, site_packages: Path
) -> None:
    override = tmp_path / "zookeeper.yaml"
    override.write_text(
        json.dumps({"services": {"zookeeper": zookeeper_from_maven(tmp_path, image.base)}})
    )
    port = free_port()
    cluster = project(DOCKER / "cluster.yaml", override, PORT=str(port))
    cluster.run("up", "--detach", "broker", "autorecovery")
    wait_until_ready(port, cluster)
    assert "read 20" in from_the_host("confluent-kafka", f"localhost:{port}")
    network = f"{cluster.name}_default"
    assert "read 20" in from_a_container("aiokafka", "broker:19092", network, site_packages)
    shown = cluster.run("exec", "-T", "broker", "tailrace", "cluster", "show")
    assert "bookie1:3181, bookie2:3181, bookie3:3181" in shown
    asked = ("tailrace", "autorecovery", "status", "--json")
    assert json.loads(cluster.run("exec", "-T", "broker", *asked))["auditor"].endswith(":1")
    cluster.run("kill", "bookie2")
    assert "read 20" in from_the_host("confluent-kafka", f"localhost:{port}")
    scraped = {target: scrape(cluster, target) for target in targets() if "bookie2" not in target}
    served = set().union(*scraped.values())
    missing = {name for name in shown_metrics() if name not in served}
    assert not missing


def targets() -> list[str]:
    """Return what Prometheus is told to ask."""
    config = yaml.safe_load((DOCKER / "prometheus.yml").read_text())
    jobs = config["scrape_configs"]
    return [at for job in jobs for each in job["static_configs"] for at in each["targets"]]


def scrape(cluster: Project, target: str) -> set[str]:
    """Return the names of the metrics of a target, asked for from within the network."""
    said = cluster.run("exec", "-T", "broker", "python", "-c", SCRAPE, f"http://{target}/metrics")
    return set(re.findall(r"^([a-z_]+)[ {]", said, re.MULTILINE))


def shown_metrics() -> set[str]:
    """Return the names of the metrics that the dashboard shows."""
    panels = json.loads((DOCKER / "grafana" / "tailrace.json").read_text())["panels"]
    expressions = [target["expr"] for panel in panels for target in panel["targets"]]
    words = {word for each in expressions for word in re.findall(r"[a-z]+(?:_[a-z]+)+", each)}
    return words - {"__rate_interval", "rate_interval"}


def test_the_dashboard_is_one_that_grafana_takes() -> None:
    dashboard = json.loads((DOCKER / "grafana" / "tailrace.json").read_text())
    source = yaml.safe_load((DOCKER / "grafana" / "datasource.yml").read_text())
    panels = dashboard["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels) > 10
    places = [tuple(panel["gridPos"].values()) for panel in panels]
    assert len(set(places)) == len(places)
    assert all(x + width <= 24 for _, width, x, _ in places)
    uids = {panel["datasource"]["uid"] for panel in panels}
    assert uids == {each["uid"] for each in source["datasources"]}
    assert len(shown_metrics()) > 20
