"""One process that is a proxy of a cluster. `tailrace proxy write`, `tailrace proxy read`.

Order of the start: the port is taken -> session with ZooKeeper -> the cluster is there -> the
namespace is bound to it -> the port is served -> registered -> the ready line. The end: no new
stream is taken, the registration goes, the streams are completed and let go while their requests
are answered (a read proxy ends its reads), then the port closes. kill -9 is safe at any point. A
lost session stops nothing: a proxy goes on with what it has, and registers again by itself.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import NamedTuple

from tailrace.broker.cluster.paths import ClusterPaths
from tailrace.broker.listeners import Endpoint
from tailrace.core.errors import (
    AuthFailed,
    CoreError,
    NoAuth,
    NodeExists,
    NoNode,
    Unavailable,
)
from tailrace.core.log.config import LogConfig
from tailrace.core.log.open_namespace import OpenNamespace
from tailrace.core.runtime.clock import Clock, SystemClock
from tailrace.core.runtime.config import ConfigError
from tailrace.core.runtime.metrics import Metrics
from tailrace.core.runtime.task_health import task_health
from tailrace.processes.cluster_namespace import granted_ms, open_bound
from tailrace.processes.doors import check_doors, proxy_doors
from tailrace.processes.health_http import serve_health
from tailrace.processes.lifecycle import CREDENTIALS, Remedies, Serving, run_process
from tailrace.processes.proxy_access import Guarding, guard, known_users, new_server
from tailrace.processes.proxy_config import (
    ProxyProcessConfig,
    ReadProxyConfig,
    WriteProxyConfig,
)
from tailrace.processes.proxy_locks import OwnLocks
from tailrace.processes.proxy_members import follow_members
from tailrace.processes.topic_streams import TopicStreams, log_of
from tailrace.protocol.proxy.methods import PROXY_ADMIN, READ_PROXY, WRITE_PROXY
from tailrace.proxy.owner.config import proxy_log_config
from tailrace.proxy.owner.location import ProxyLocation
from tailrace.proxy.owner.streams import Streams
from tailrace.proxy.reading.read_service import ReadService
from tailrace.proxy.routing import members
from tailrace.proxy.routing.members import MemberRegistration
from tailrace.proxy.routing.regions import region_of
from tailrace.proxy.routing.ring import Host
from tailrace.proxy.routing.stopped_regions import StopWatch
from tailrace.proxy.service.admin_service import AdminService
from tailrace.proxy.service.grpc_server import GrpcServer
from tailrace.proxy.service.write_service import WriteService


class RunningProxy(NamedTuple):
    """What runs: for the process that waits for its end."""

    advertised: Endpoint
    """Where clients connect to."""
    failures: Mapping[asyncio.Future[None], str]
    """What ends it besides a signal, as in `Serving`."""


def run_write(config: WriteProxyConfig) -> int:
    """Run until SIGTERM or SIGINT and return the process' exit code.

    Prints `ready: proxy=HOST:PORT` on stdout once the first request would be answered and clients
    find it; errors of the start, with cause, place and remedy, on stderr.
    """
    process = write_proxy_process(config, SystemClock(), Metrics())
    return run_process(process, _serving, _remedies(config), config.log_level)


def run_read(config: ReadProxyConfig) -> int:
    """Do the same for a read proxy."""
    process = read_proxy_process(config, SystemClock(), Metrics())
    return run_process(process, _serving, _remedies(config), config.log_level)


@asynccontextmanager
async def write_proxy_process(
    config: WriteProxyConfig, clock: Clock, metrics: Metrics
) -> AsyncIterator[RunningProxy]:
    """Run a write proxy that is registered; drain and close it at the end of the block.

    Errors: Unavailable (no ZooKeeper), NoNode (no cluster), NodeExists (the namespace belongs to
    other ledgers), CorruptData, OSError (address in use), OpenDoors.
    """
    async with AsyncExitStack() as stack:
        server, advertised = _take_port(config, metrics, stack)
        location = ProxyLocation(config.address.shard, advertised.host, advertised.port)
        log = proxy_log_config(config.log, location)
        opened = await _open(config, log, clock, metrics, stack)
        timeout_ms = granted_ms(opened.store, config.session_timeout_ms)
        locks = OwnLocks(opened.store, clock, timeout_ms)
        streams = Streams(
            opened.logs,
            location,
            clock,
            config.owner,
            session_timeout_ms=timeout_ms,
            events=locks,
        )
        metrics.register("proxy", streams.metrics)
        reserved = await _guard(config, server, opened, clock, metrics, stack)
        writes = WriteService(streams, location, config.write, reserved.reason)
        server.add(WRITE_PROXY, writes)
        server.add(PROXY_ADMIN, AdminService(streams, writes))
        await _serve(config, server, metrics, stack)
        stack.callback(writes.end_write_streams)
        stack.push_async_callback(streams.close)
        proxies = f"{opened.uri.root}/{members.WRITE_PROXIES}"
        stack.push_async_callback(follow_members(opened.store, proxies, streams).close)
        await _follow_stops(opened, location, config.address.region, streams, stack)
        await _register(opened, members.WRITE_PROXIES, location, config.address.region, stack)
        stack.push_async_callback(_begin_drain, server, streams)
        yield RunningProxy(advertised, {locks.taken: ""})


@asynccontextmanager
async def read_proxy_process(
    config: ReadProxyConfig, clock: Clock, metrics: Metrics
) -> AsyncIterator[RunningProxy]:
    """Run a read proxy that is registered; end its reads and close it at the end of the block.

    Errors: as `write_proxy_process`.
    """
    async with AsyncExitStack() as stack:
        server, advertised = _take_port(config, metrics, stack)
        opened = await _open(config, config.log, clock, metrics, stack)
        service = ReadService(opened.logs, clock, config.read, log_of)
        metrics.register("proxy_read", service.metrics)
        _ = await _guard(config, server, opened, clock, metrics, stack)
        server.add(READ_PROXY, service)
        await _serve(config, server, metrics, stack)
        stack.push_async_callback(service.close)
        location = ProxyLocation(config.address.shard, advertised.host, advertised.port)
        await _register(opened, members.READ_PROXIES, location, config.address.region, stack)
        stack.push_async_callback(server.stop_serving)
        yield RunningProxy(advertised, {})


def _take_port(
    config: ProxyProcessConfig, metrics: Metrics, stack: AsyncExitStack
) -> tuple[GrpcServer, Endpoint]:
    """Return a server that has its port, and where clients connect to. Errors: OpenDoors."""
    check_doors(proxy_doors(config.address, config.grpc, config.http), config.exposure)
    server = new_server(config.grpc, config.access.tls, metrics, stack)
    at = config.address.at
    return server, config.address.advertised_at(server.bind(at.host, at.port))


async def _open(
    config: ProxyProcessConfig,
    log: LogConfig,
    clock: Clock,
    metrics: Metrics,
    stack: AsyncExitStack,
) -> OpenNamespace:
    """Open the namespace until the stack closes, and show the numbers of all that is below."""
    opened = await open_bound(config, log, clock, metrics, stack)
    task_health().register(metrics)
    return opened


async def _guard(
    config: ProxyProcessConfig,
    server: GrpcServer,
    opened: OpenNamespace,
    clock: Clock,
    metrics: Metrics,
    stack: AsyncExitStack,
) -> TopicStreams:
    """Have the proxy know its callers until the stack closes; return which streams are topics'."""
    paths = ClusterPaths.of_namespace(opened.uri.root)
    topics = TopicStreams(opened.store, paths, opened.logs, clock)
    access = config.access
    if config.grpc.authentication or access.authorization.enabled:
        known = await known_users(access, opened.store, paths, clock, stack)
        how = Guarding(config.grpc, access.principal_rules, lambda: access.failed_delay_ms)
        guard(server, how, known, topics, metrics)
    return topics


async def _serve(
    config: ProxyProcessConfig, server: GrpcServer, metrics: Metrics, stack: AsyncExitStack
) -> None:
    await serve_health(config.http, metrics, stack)
    stack.push_async_callback(server.close)
    await server.start()


async def _follow_stops(
    opened: OpenNamespace,
    location: ProxyLocation,
    region: str,
    streams: Streams,
    stack: AsyncExitStack,
) -> None:
    """Have the proxy take no new stream while its region is stopped, until the stack closes.

    `region` "": the one that the host's name says.
    """
    place = region or region_of(Host(location.host, location.port))

    def on_stops(stopped: frozenset[str]) -> None:
        streams.set_region_stopped(stopped=place in stopped)

    watch = StopWatch(opened.store, opened.uri.root, on_stops)
    stack.push_async_callback(watch.close)
    await watch.start()


async def _register(
    opened: OpenNamespace,
    server_set: str,
    location: ProxyLocation,
    region: str,
    stack: AsyncExitStack,
) -> None:
    """Have clients find the proxy until the stack closes."""
    at = members.Endpoint(location.host, location.port)
    node = members.proxy_node(at, location.shard, region)
    registration = MemberRegistration(opened.store, f"{opened.uri.root}/{server_set}", node)
    stack.push_async_callback(registration.close)
    await registration.register()


async def _begin_drain(server: GrpcServer, streams: Streams) -> None:
    """Take no new stream, and answer NOT_SERVING to requests for its health."""
    streams.set_accept_new_stream(accepts=False)
    await server.stop_serving()


def _serving(running: RunningProxy) -> Serving:
    return Serving(f"ready: proxy={running.advertised}\n", running.failures)


def _remedies(config: ProxyProcessConfig) -> Remedies:
    return Remedies(
        {
            AuthFailed: CREDENTIALS,
            NoAuth: CREDENTIALS,
            Unavailable: f"is ZooKeeper running at {config.metadata_uri}?",
            NoNode: f"tailrace cluster init --metadata {config.metadata_uri}",
            NodeExists: "give the --metadata that the namespace is bound to, or another "
            "--namespace",
            ConfigError: "the settings are listed by --show-config",
            OSError: f"check that {config.address.listener} is free, or give another --listen",
            CoreError: "",
        },
        otherwise="nothing was changed; see the log lines above",
    )
