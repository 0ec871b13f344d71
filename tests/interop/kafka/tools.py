"""Kafka's command-line tools as a test calls them, all in one JVM."""

import json
import os
import subprocess
from dataclasses import dataclass
from typing import Any, Final

from tests.java.jars import QUICK_JVM, jars, tool
from tests.java.peers import JavaClient
from tests.process import TailraceProcess

MAIN_CLASSES: Final = {
    "acls": "org.apache.kafka.tools.AclCommand",
    "broker-api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
    "cluster": "org.apache.kafka.tools.ClusterTool",
    "configs": "kafka.admin.ConfigCommand",
    "console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "consumer-perf-test": "org.apache.kafka.tools.ConsumerPerformance",
    "delegation-tokens": "org.apache.kafka.tools.DelegationTokenCommand",
    "delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "features": "org.apache.kafka.tools.FeatureCommand",
    "get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "groups": "org.apache.kafka.tools.GroupsCommand",
    "leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
    "log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "producer-perf-test": "org.apache.kafka.tools.ProducerPerformance",
    "reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "topics": "org.apache.kafka.tools.TopicCommand",
    "transactions": "org.apache.kafka.tools.TransactionsCommand",
    "verifiable-consumer": "org.apache.kafka.tools.VerifiableConsumer",
    "verifiable-producer": "org.apache.kafka.tools.VerifiableProducer",
}

_TIMEOUT_S: Final = 60


@dataclass(frozen=True, slots=True)
class Run:
    """What a tool printed, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def rows(self) -> list[list[str]]:
        """The words of each line that is not empty."""
        return [line.split() for line in self.out.splitlines() if line.strip()]

    @property
    def events(self) -> list[dict[str, Any]]:
        """The lines that are JSON objects."""
        return [json.loads(line) for line in self.out.splitlines() if line.startswith("{")]


class Tools:
    """The tools, each asked about one broker."""

    def __init__(self, peer: JavaClient, broker: TailraceProcess, at: str = "") -> None:
        """`at`: the address of another listener than the first."""
        self._peer = peer
        self._bootstrap = at or broker.bootstrap

    def run(self, name: str, *arguments: str, stdin: str = "") -> Run:
        """Run `kafka-<name>.sh --bootstrap-server ...`, whatever comes of it."""
        head = ["--bootstrap-server", self._bootstrap]
        words = [*arguments, *head] if name == "cluster" else [*head, *arguments]
        answer = self._peer.call("tool", main=MAIN_CLASSES[name], args=words, stdin=stdin)
        return Run(answer["code"], answer["out"], answer["err"])

    def __call__(self, name: str, *arguments: str, stdin: str = "") -> Run:
        """Run a tool that succeeds."""
        done = self.run(name, *arguments, stdin=stdin)
        assert done.code == 0, f"{name}: {done.code}\n{done.out}\n{done.err}"
        return done

    def alone(self, name: str, *arguments: str, heap: str = "128m") -> Run:
        """Run a tool that succeeds in a JVM of its own: one that says its last as the JVM ends.

        `heap`: its size, for a tool that needs more than all of them in one JVM have.
        """
        classpath = os.pathsep.join(str(jar) for jar in jars("kafka"))
        java = [tool("java"), f"-Xmx{heap}", *QUICK_JVM, "-cp", classpath]
        done = subprocess.run(
            [*java, MAIN_CLASSES[name], "--bootstrap-server", self._bootstrap, *arguments],
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return Run(done.returncode, done.stdout, done.stderr)
