"""The way of the commands to the proxies of a namespace: their registrations, and calls to them."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from tailrace.core.metadata.store import MetadataStore
from tailrace.core.metadata.uri import NamespaceUri
from tailrace.proxy.balancing.proxies import ProxyOperator, ProxyView, Registered, read_members
from tailrace.proxy.client.config import ClientConfig
from tailrace.proxy.client.grpc_transport import GrpcTransport
from tailrace.proxy.routing.members import READ_PROXIES, WRITE_PROXIES
from tailrace.tools.clients.command_config import security_settings
from tailrace.tools.cluster.cluster_access import on_namespace_store
from tailrace.tools.errors import CliError, Exit
from tailrace.tools.output import note

T = TypeVar("T")

CONNECT_MS = 5_000

Name = Annotated[str, typer.Argument(metavar="PROXY", help="HOST:PORT, as `proxy list` shows it.")]


@dataclass(frozen=True, slots=True)
class Proxies:
    """The proxies of a namespace, as long as a command needs them."""

    store: MetadataStore
    at: NamespaceUri
    operator: ProxyOperator

    async def writers(self) -> list[Registered]:
        """Return the write proxies. Errors: CliError if there is none."""
        found = await read_members(self.store, f"{self.at.root}/{WRITE_PROXIES}")
        if not found:
            raise CliError(
                "no write proxy is registered", place=self.at.text,
                remedy="tailrace proxy write --metadata URI --namespace URI",
                code=Exit.UNREACHABLE,
            )  # fmt: skip
        return found

    async def readers(self) -> list[Registered]:
        """Return the read proxies."""
        return await read_members(self.store, f"{self.at.root}/{READ_PROXIES}")

    def named(self, members: Sequence[Registered], name: str) -> Registered:
        """Return a write proxy by its HOST:PORT. Errors: CliError."""
        found = next((each for each in members if each.name == name), None)
        if found is None:
            raise CliError(
                f"no write proxy is registered as {name}", place=self.at.text,
                remedy=f"one of: {', '.join(each.name for each in members)}",
            )  # fmt: skip
        return found


def on_proxies(
    namespace: str,
    timeout_s: float,
    work: Callable[[Proxies], Awaitable[T]],
    command_config: Path | None = None,
) -> T:
    """Do work on the proxies of a namespace; each answer is waited for so long. Errors: CliError.

    `command_config`: the file that says how to get in. Unit: seconds.
    """
    config = ClientConfig(connect_timeout_ms=CONNECT_MS, security=security_settings(command_config))

    async def run(store: MetadataStore, at: NamespaceUri) -> T:
        transport = GrpcTransport(config)
        try:
            return await work(Proxies(store, at, ProxyOperator(transport, timeout_s)))
        finally:
            await transport.close()

    return on_namespace_store(namespace, run, changes=True)


def answering(views: Sequence[ProxyView]) -> list[ProxyView]:
    """Return the proxies that answered; say which did not. Errors: CliError if none did."""
    for each in views:
        if each.trouble:
            note(f"{each.registered.name} does not answer: {each.trouble}")
    found = [each for each in views if not each.trouble]
    if not found:
        raise CliError("no write proxy answers", code=Exit.UNREACHABLE)
    return found
