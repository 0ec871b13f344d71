"""How callers get into a proxy: TLS, and the users and access lists of its namespace.

They are those of the Kafka cluster whose topics lie in the same namespace.
"""

from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import NamedTuple

from tailrace.broker.cluster.paths import ClusterPaths
from tailrace.core.access.acls.authorizer import AclAuthorizer
from tailrace.core.access.acls.store import AclStore
from tailrace.core.access.audit import Audit, audit_of
from tailrace.core.access.authorizer import Authorizer
from tailrace.core.access.callers import Callers, Means, Passwords, Tokens, user_of_certificate
from tailrace.core.access.oauth.validator import TokenValidator
from tailrace.core.access.principals import PrincipalRules
from tailrace.core.access.users.cluster_secret import cluster_secret
from tailrace.core.access.users.codec import USER_CODEC
from tailrace.core.access.users.lookup import UserLookup
from tailrace.core.access.users.password_checker import PasswordChecker
from tailrace.core.metadata.store import MetadataStore
from tailrace.core.metadata.stored_entities import StoredEntities
from tailrace.core.runtime.clock import Clock
from tailrace.core.runtime.metrics import Metrics
from tailrace.core.security.tls_config import TlsConfig
from tailrace.processes.proxy_access_config import ProxyAccessConfig
from tailrace.processes.topic_streams import TopicStreams
from tailrace.proxy.service.call_access import CallAccess
from tailrace.proxy.service.config import GrpcConfig
from tailrace.proxy.service.grpc_server import GrpcServer


class KnownUsers(NamedTuple):
    """Who is known, and what decides."""

    passwords: Passwords
    tokens: Tokens | None
    """None: they are not asked for."""
    authorizer: Authorizer | None
    audit: Audit | None = None


def new_server(
    config: GrpcConfig, tls: TlsConfig, metrics: Metrics, stack: AsyncExitStack
) -> GrpcServer:
    """Return a server, with TLS if it is wanted, until the stack closes. Errors: InvalidKeys."""
    credentials = None
    if config.is_secured:
        from tailrace.proxy.service.grpc_tls import GrpcTls  # 60 ms, for those who need it

        grpc_tls = GrpcTls(tls)
        stack.push_async_callback(grpc_tls.close)
        metrics.register("proxy_tls", grpc_tls.metrics)
        credentials = grpc_tls.credentials
    server = GrpcServer(config, credentials)
    stack.push_async_callback(server.close)
    return server


async def known_users(
    config: ProxyAccessConfig,
    store: MetadataStore,
    paths: ClusterPaths,
    clock: Clock,
    stack: AsyncExitStack,
) -> KnownUsers:
    """Read a namespace's users and access lists, and follow them until the stack closes.

    Errors: Unavailable, CorruptData; OSError: the audit log cannot be written.
    """
    users = StoredEntities(store, paths.users, USER_CODEC)
    lookup = UserLookup(users, await cluster_secret(store, paths.user_secret))
    passwords = PasswordChecker(lookup)
    stack.push_async_callback(passwords.close)
    await users.start()
    stack.push_async_callback(users.close)
    bearers = TokenValidator(config.oauth, clock)
    stack.push_async_callback(bearers.close)
    if config.oauth.jwks_url:
        bearers.start()
    audit = audit_of(config.authorization.audit_level, config.authorization.audit_log, clock.now_ms)
    if audit is not None:
        audit.check()
        stack.push_async_callback(audit.close)
    if not config.authorization.enabled:
        return KnownUsers(passwords, bearers.check, None, audit)
    acls = AclStore(
        store,
        paths.acls,
        AclAuthorizer(
            super_users=config.authorization.super_users,
            allow_everyone_without_acl=config.authorization.allow_everyone_without_acl,
        ),
    )
    await acls.start()
    stack.push_async_callback(acls.close)
    return KnownUsers(passwords, bearers.check, acls.authorizer, audit)


class Guarding(NamedTuple):
    """How a server's callers are known."""

    config: GrpcConfig
    principal_rules: str
    failed_delay_ms: Callable[[], int]


def guard(
    server: GrpcServer, how: Guarding, known: KnownUsers, topics: TopicStreams, metrics: Metrics
) -> None:
    """Have a server ask who calls, and whether it may; unless nothing says that it should."""
    schemes = how.config.authentication
    if not schemes and known.authorizer is None:
        return
    of_certificate = user_of_certificate(PrincipalRules(how.principal_rules))
    means = Means(
        passwords=known.passwords if "basic" in schemes else None,
        tokens=known.tokens if "bearer" in schemes else None,
        user_of_certificate=of_certificate if "certificate" in schemes else None,
    )
    callers = Callers(means, how.failed_delay_ms)
    access = CallAccess(callers, lambda: known.authorizer, topics.topic_of, audit=known.audit)
    metrics.register("proxy_access", access.metrics)
    server.guard(access)
