"""What the `topic` commands ask of a cluster, through confluent-kafka's administration client."""

from collections.abc import Mapping, Sequence
from typing import Any, Self

import confluent_kafka.admin
from confluent_kafka import KafkaError, KafkaException, TopicCollection, TopicPartition

from tailrace.tools.clients.librdkafka import Target, admin, failure
from tailrace.tools.errors import CliError

api: Any = confluent_kafka.admin
"""Its classes come from modules that it does not export to type checkers."""

Change = tuple[str, str, str | None]
"""Operation (SET, DELETE, APPEND, SUBTRACT), config, value."""


class TopicsAdmin:
    """Topic administration of one cluster. Errors: CliError from every method."""

    def __init__(self, to: Target) -> None:
        self._to = to
        self._admin = admin(to)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._admin.poll(0)

    def create(
        self,
        name: str,
        partitions: int,
        replication_factor: int,
        configs: Mapping[str, str],
        *,
        if_not_exists: bool,
        validate_only: bool,
    ) -> bool:
        """Create a topic; False if it is there and that is no error."""
        topic = api.NewTopic(
            name,
            num_partitions=partitions,
            replication_factor=replication_factor,
            config=dict(configs),
        )
        try:
            self._admin.create_topics(
                [topic], request_timeout=self._to.timeout_s, validate_only=validate_only
            )[name].result(self._to.timeout_s)
        except KafkaException as error:
            if if_not_exists and error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS:
                return False
            raise failure(error, f"create topic {name}", self._to) from error
        return True

    def delete(self, name: str, *, if_exists: bool) -> bool:
        """Delete a topic; False if it is not there and that is no error."""
        _check_text(name)
        try:
            self._admin.delete_topics([name], request_timeout=self._to.timeout_s)[name].result(
                self._to.timeout_s
            )
        except KafkaException as error:
            if if_exists and error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                return False
            raise failure(error, f"delete topic {name}", self._to) from error
        return True

    def grow(self, name: str, partitions: int, *, validate_only: bool) -> None:
        """Give a topic more partitions."""
        try:
            self._admin.create_partitions(
                [api.NewPartitions(name, partitions)],
                request_timeout=self._to.timeout_s,
                validate_only=validate_only,
            )[name].result(self._to.timeout_s)
        except KafkaException as error:
            raise failure(error, f"grow topic {name}", self._to) from error

    def alter_configs(self, name: str, changes: Sequence[Change], *, validate_only: bool) -> None:
        """Change a topic's configs, all or none; what is taken back must be a config.

        A broker takes back any name (so does Kafka's, whose tools look first).
        """
        taken_back = {key for operation, key, _ in changes if operation == "DELETE"}
        if taken_back:
            self._check_known(name, taken_back)
        entries = [
            api.ConfigEntry(key, value, incremental_operation=api.AlterConfigOpType[op])
            for op, key, value in changes
        ]
        resource = api.ConfigResource(api.ResourceType.TOPIC, name, incremental_configs=entries)
        try:
            answers = self._admin.incremental_alter_configs(
                [resource], request_timeout=self._to.timeout_s, validate_only=validate_only
            )
            answers[resource].result(self._to.timeout_s)
        except KafkaException as error:
            raise failure(error, f"alter topic {name}", self._to) from error

    def _check_known(self, name: str, keys: set[str]) -> None:
        unknown = sorted(keys - self._configs(name, all_configs=True).keys())
        if unknown:
            raise CliError(
                f"no such config: {', '.join(unknown)}",
                place=f"topic {name}",
                remedy="`tailrace topic describe --all-configs` shows them",
            )

    def list_topics(self) -> list[dict[str, Any]]:
        """Return name, number of partitions and whether internal, by name."""
        try:
            found = self._admin.list_topics(timeout=self._to.timeout_s)
        except KafkaException as error:
            raise failure(error, "list topics", self._to) from error
        return [
            {
                "topic": name,
                "partitions": len(topic.partitions),
                "internal": name in _INTERNAL,
            }
            for name, topic in sorted(found.topics.items())
        ]

    def describe(self, names: Sequence[str], *, all_configs: bool) -> list[dict[str, Any]]:
        """Return everything about topics, in the order asked for."""
        _check_text(*names)
        asked = self._admin.describe_topics(
            TopicCollection(list(names)), request_timeout=self._to.timeout_s
        )
        found = []
        for name in names:
            try:
                topic = asked[name].result(self._to.timeout_s)
            except KafkaException as error:
                raise failure(error, f"describe topic {name}", self._to) from error
            found.append(
                {
                    "topic": name,
                    "topic_id": str(topic.topic_id),
                    "internal": topic.is_internal,
                    "partitions": self._partitions(name, topic.partitions),
                    "configs": self._configs(name, all_configs=all_configs),
                }
            )
        return found

    def _partitions(self, name: str, partitions: Sequence[Any]) -> list[dict[str, Any]]:
        starts = self._offsets(name, partitions, api.OffsetSpec.earliest())
        ends = self._offsets(name, partitions, api.OffsetSpec.latest())
        return [
            {
                "partition": partition.id,
                "leader": partition.leader.id if partition.leader else None,
                "leader_epoch": ends[partition.id][1],
                "replicas": [node.id for node in partition.replicas],
                "isr": [node.id for node in partition.isr],
                "start_offset": starts[partition.id][0],
                "end_offset": ends[partition.id][0],
            }
            for partition in partitions
        ]

    def _offsets(
        self, name: str, partitions: Sequence[Any], spec: Any
    ) -> dict[int, tuple[int | None, int | None]]:
        """Return offset and leader epoch by partition; None where nobody leads it."""
        led = {TopicPartition(name, p.id): spec for p in partitions if p.leader}
        found: dict[int, tuple[int | None, int | None]] = {p.id: (None, None) for p in partitions}
        if not led:
            return found
        asked = self._admin.list_offsets(led, request_timeout=self._to.timeout_s)
        for at, future in asked.items():
            try:
                result = future.result(self._to.timeout_s)
            except KafkaException as error:
                raise failure(error, f"offsets of {name}/{at.partition}", self._to) from error
            found[at.partition] = (result.offset, result.leader_epoch)
        return found

    def _configs(self, name: str, *, all_configs: bool) -> dict[str, str | None]:
        resource = api.ConfigResource(api.ResourceType.TOPIC, name)
        try:
            entries = self._admin.describe_configs([resource], request_timeout=self._to.timeout_s)[
                resource
            ].result(self._to.timeout_s)
        except KafkaException as error:
            raise failure(error, f"configs of topic {name}", self._to) from error
        return {
            key: entry.value
            for key, entry in sorted(entries.items())
            if all_configs or entry.source == api.ConfigSource.DYNAMIC_TOPIC_CONFIG.value
        }


_INTERNAL = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})


def _check_text(*names: str) -> None:
    """Refuse what no name in a request can be; the client ends the process for one in a list.

    Errors: UnicodeEncodeError.
    """
    for name in names:
        name.encode()
