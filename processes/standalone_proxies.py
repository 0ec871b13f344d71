"""The serving layer inside `tailrace start`: thin clients beside Kafka's, over the same logs.

It has a namespace of its own over the same metadata and bookie, so that its locks have a proxy's
name. Nothing else can have the store open, so no other proxy is there to be redirected to.
"""

import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from tailrace.broker.broker import Broker
from tailrace.broker.running import Storage
from tailrace.core.ledger.client import LedgerClient
from tailrace.core.log.namespace import LogNamespace
from tailrace.core.runtime.metrics import Metrics
from tailrace.processes.proxy_access import Guarding, KnownUsers, guard, new_server
from tailrace.processes.standalone_config import StandaloneConfig
from tailrace.processes.topic_streams import TopicStreams, log_of
from tailrace.protocol.proxy.methods import READ_PROXY, WRITE_PROXY
from tailrace.proxy.owner.config import proxy_log_config
from tailrace.proxy.owner.location import ProxyLocation
from tailrace.proxy.owner.streams import Streams
from tailrace.proxy.reading.read_service import ReadService
from tailrace.proxy.service.grpc_server import GrpcServer
from tailrace.proxy.service.write_service import WriteService


@asynccontextmanager
async def serve_proxies(
    config: StandaloneConfig,
    broker: Broker,
    storage: Storage,
    ledgers: LedgerClient,
    metrics: Metrics,
) -> AsyncIterator[None]:
    """Serve both services in the block, and say where; drain and close it at the end.

    `broker`: the one of this process, whose users and access lists hold here too.
    Errors: OSError when the address is taken; InvalidKeys.
    """
    proxy, clock = config.proxy, broker.clock
    async with AsyncExitStack() as stack:
        server = new_server(proxy.grpc, config.broker.network.tls, metrics, stack)
        at = proxy.address.at
        advertised = proxy.address.advertised_at(server.bind(at.host, at.port))
        location = ProxyLocation(proxy.address.shard, advertised.host, advertised.port)
        log = proxy_log_config(config.log, location)
        namespace = LogNamespace(storage.store, ledgers, log, clock)
        stack.push_async_callback(namespace.close)
        metrics.register("proxy_log", namespace.metrics)
        streams = Streams(
            namespace,
            location,
            clock,
            proxy.owner,
            session_timeout_ms=storage.session_timeout_ms,
        )
        metrics.register("proxy", streams.metrics)
        reserved = TopicStreams(storage.store, storage.paths, namespace, clock)
        _guard(server, config, broker, reserved, metrics)
        writes = WriteService(streams, location, proxy.write, reserved.reason)
        server.add(WRITE_PROXY, writes)
        reads = ReadService(namespace, clock, proxy.read, log_of)
        metrics.register("proxy_read", reads.metrics)
        server.add(READ_PROXY, reads)
        stack.push_async_callback(server.close)
        await server.start()
        stack.push_async_callback(reads.close)
        stack.callback(writes.end_write_streams)
        stack.push_async_callback(streams.close)
        stack.push_async_callback(server.stop_serving)
        sys.stdout.write(f"proxy: grpc={advertised}\n")
        sys.stdout.flush()
        yield


def _guard(
    server: GrpcServer,
    config: StandaloneConfig,
    broker: Broker,
    topics: TopicStreams,
    metrics: Metrics,
) -> None:
    network = config.broker.network
    how = Guarding(config.proxy.grpc, network.principal_rules, lambda: network.sasl.failed_delay_ms)
    known = KnownUsers(
        broker.authentication.passwords,
        broker.authentication.bearers.check
        if "bearer" in config.proxy.grpc.authentication
        else None,
        broker.authorizer,
        broker.audit,
    )
    guard(server, how, known, topics, metrics)
