"""Administration handlers over a real registry, asked and answered through the wire codec."""

import asyncio
import importlib
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, TypeVar

from tailrace.broker.cluster.config_entities import ConfigEntities
from tailrace.broker.cluster.dynamic_configs import DynamicConfigs
from tailrace.broker.cluster.live_brokers import LiveBroker, LiveBrokers
from tailrace.broker.cluster.routes import Routes
from tailrace.broker.cluster.topics import TopicRegistry
from tailrace.broker.config import BrokerConfig
from tailrace.broker.context import RequestContext
from tailrace.broker.handlers import HANDLERS
from tailrace.broker.listeners import Advertised, ConnectionInfo, Endpoint, Listener
from tailrace.core.access.users.codec import USER_CODEC
from tailrace.core.metadata.stored_entities import StoredEntities
from tailrace.core.runtime.loop_turns import LoopTurns
from tailrace.protocol.kafka.api import Api
from tailrace.protocol.kafka.codec import (
    decode_request,
    decode_response,
    encode_request,
    encode_response,
)
from tailrace.protocol.kafka.header import RequestHeader
from tests.unit.broker.cluster.support import Streams, registry
from tests.unit.broker.fakes import Bookies

if TYPE_CHECKING:
    from tailrace.broker.broker import Broker

Q = TypeVar("Q")
R = TypeVar("R")

for _name in (
    "alter_configs",
    "alter_partition_reassignments",
    "alter_user_scram_credentials",
    "create_partitions",
    "create_topics",
    "delete_topics",
    "describe_configs",
    "describe_user_scram_credentials",
    "elect_leaders",
    "incremental_alter_configs",
    "list_config_resources",
    "list_partition_reassignments",
    "update_features",
):
    importlib.import_module(f"tailrace.broker.handlers.{_name}")


class Admin:
    """One broker's administration."""

    def __init__(
        self,
        configs: DynamicConfigs[BrokerConfig],
        topics: TopicRegistry,
        streams: Streams,
        bookies: int,
    ) -> None:
        self.topics = topics
        self.users = StoredEntities(topics._nodes._store, "/users", USER_CODEC)
        self.streams = streams
        self.configs = configs
        self.routes = Routes(topics, configs.started_with.node_id)
        self.holders: dict[tuple[str, int], int] = {}
        """Brokers that have partitions open."""
        config = configs.started_with
        broker: Any = SimpleNamespace(
            topics=topics,
            users=self.users,
            routes=self.routes,
            partitions=SimpleNamespace(stored=self),
            config=config,
            configs=configs,
            node_id=config.node_id,
            advertised=Advertised((Listener("PLAINTEXT", "h", 9),)),
            log_dir="/data",
            bookies=Bookies(bookies),
            turns=LoopTurns(),
            authorizer=None,
            audit=None,
        )
        self._broker: Broker = broker
        self.broker = broker
        configs.listen(partial(setattr, broker, "config"))

    async def holder(self, topic: str, partition: int) -> int | None:
        """Return who has a partition, as `StoredPartitions` does."""
        return self.holders.get((topic, partition))

    def let_live(self, *node_ids: int) -> None:
        """Have these brokers be alive."""
        self.routes.live = LiveBrokers(
            LiveBroker(each, {}, Endpoint("h", each), None) for each in node_ids
        )

    @property
    def config(self) -> BrokerConfig:
        """What the broker runs with now."""
        return self._broker.config

    async def ask(self, api: Api[Q, R], version: int, request: Q) -> R:
        """Ask as a client does: what a version cannot carry is lost on the way."""
        header = RequestHeader(api.key, version, 1, "test")
        ctx = RequestContext(self._broker, header, ConnectionInfo("127.0.0.1", 1, "PLAINTEXT"))
        body = memoryview(encode_request(api, version, request))
        answer = HANDLERS[api.key].function(ctx, decode_request(api, version, body))
        if inspect.isawaitable(answer):
            answer = await answer
        return decode_response(api, version, b"".join(encode_response(api, version, answer)))


@asynccontextmanager
async def admin(
    path: Path, config: BrokerConfig | None = None, *, bookies: int = 1, **topics: Any
) -> AsyncIterator[Admin]:
    config = config or BrokerConfig()
    config = replace(config, topics=replace(config.topics, **topics))
    streams = Streams()
    async with registry(path, streams, given=dict(config.topics.defaults.given())) as topics_:
        entities = ConfigEntities(topics_._nodes._store)
        configs = DynamicConfigs(config, config.node_id, entities, topics_)
        to = Admin(configs, topics_, streams, bookies)
        await configs.start()
        await to.users.start()
        yield to
        await to.users.close()


def run(story: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        await story()

    asyncio.run(main(), debug=True)
