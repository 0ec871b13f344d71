"""The methods of the services, as the contract's descriptors say. Pure.

gRPC's path of a method is `/<package>.<service>/<method>`.
"""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from tailrace.protocol.proxy import proxy_admin_pb2, read_proxy_pb2, write_proxy_pb2

_HUMP: Final = re.compile(r"(?<!^)(?=[A-Z])")


class Method(NamedTuple):
    """One method of a service."""

    name: str
    """In snake case: `write_bulk`."""
    path: str
    """What gRPC calls: `/tailrace.proxy.v1.WriteProxy/WriteBulk`."""
    request: type[Message]
    response: type[Message]
    is_request_stream: bool
    is_response_stream: bool


class Service(NamedTuple):
    """One service of the contract."""

    name: str
    """As health and reflection name it: `tailrace.proxy.v1.WriteProxy`."""
    methods: Mapping[str, Method]
    """By their names."""


def _method(found: MethodDescriptor) -> Method:
    return Method(
        name=_HUMP.sub("_", found.name).lower(),
        path=f"/{found.containing_service.full_name}/{found.name}",
        request=GetMessageClass(found.input_type),
        response=GetMessageClass(found.output_type),
        is_request_stream=found.client_streaming,
        is_response_stream=found.server_streaming,
    )


def _service(found: ServiceDescriptor) -> Service:
    methods = [_method(each) for each in found.methods]
    return Service(found.full_name, MappingProxyType({each.name: each for each in methods}))


WRITE_PROXY: Final = _service(write_proxy_pb2.DESCRIPTOR.services_by_name["WriteProxy"])
READ_PROXY: Final = _service(read_proxy_pb2.DESCRIPTOR.services_by_name["ReadProxy"])
PROXY_ADMIN: Final = _service(proxy_admin_pb2.DESCRIPTOR.services_by_name["ProxyAdmin"])
