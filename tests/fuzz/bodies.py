"""Text inside requests: JSON bodies over HTTP, values of configs."""

from functools import partial
from typing import Any, Final

from tailrace.bookie.admin import _read_only_of
from tailrace.broker.cluster.alterations import Alteration, Changes, ConfigOp
from tailrace.broker.cluster.client_metrics_configs import altered_metrics
from tailrace.broker.cluster.config_def import InvalidConfig
from tailrace.broker.cluster.dynamic_rules import OWN
from tailrace.broker.cluster.topic_configs import TOPIC_CONFIGS
from tailrace.broker.errors import KafkaError
from tailrace.broker.http_admin import _names
from tailrace.broker.quotas.connection_counts import numbers_of
from tailrace.core.runtime.config import ConfigError
from tailrace.faults.orders import BadOrder, parse
from tests.fuzz.target import Target

_WORDS = (b"[" * 30, b'{"":' * 8, b"\\ud800", b"1e999", b"9" * 30, b"NaN", b'"fault":')


def _body(data: bytes) -> Any:
    kind = (data[0] if data else 0) % 2
    return (_read_only_of, _names)[kind](data[1:])


_CONFIGS: Final = (
    *(config.parse for config in TOPIC_CONFIGS.values()),
    *(partial(setting.parse, name) for name, setting in OWN.items()),
)


def _config(data: bytes) -> Any:
    """Read a value as IncrementalAlterConfigs brings it; the first byte says of which config."""
    number, text = (data[0] if data else 0), data[1:].decode("utf-8", "replace")
    if number == 0xFF:
        return altered_metrics({}, Changes([Alteration("match", ConfigOp.SET, text)]))
    if number == 0xFE:
        return numbers_of(text.split(","))
    return _CONFIGS[number % len(_CONFIGS)](text)


TARGETS = (
    Target(
        name="config-value",
        decode=_config,
        errors=(InvalidConfig, KafkaError, ConfigError),
        seeds=lambda: [
            *(bytes((number,)) + b"1" for number in range(len(_CONFIGS))),
            b"\0compact, delete",
            b"\xffclient_id=app-.*,client_software_name=[a-z]+",
            b"\xfe127.0.0.1:5,[::1]:7",
            b"\xfe127.0.0.1:" + b"9" * 5000,
            b"\xffclient_id=" + b"(" * 3000,
        ],
        memory_base=1 << 20,
        memory_per_byte=400,
        steps_per_byte=100,
        bytes_max=8192,
        dictionary=(b"true", b"1e999", b"nan", b"9" * 20, b",", b"(" * 300, b"client_id="),
    ),
    Target(
        name="fault-order",
        decode=parse,
        errors=(BadOrder,),
        seeds=lambda: [
            b'{"fault": "drop_next", "api": "Produce", "count": 2, "when": "before"}',
            b'{"fault": "fail_next", "api": "Produce", "error": "NOT_LEADER_OR_FOLLOWER",'
            b' "topic": "t", "partition": 0}',
            b'{"fault": "delay", "api": "Fetch", "ms": 5}',
            b'{"fault": "skew_clock", "seconds": -1.5}',
            b'{"fault": "rebalance", "group": "g"}',
            b'{"fault": "rebalance", "group": "\\ud800"}',
        ],
        memory_per_byte=400,
        steps_per_byte=400,
        dictionary=_WORDS,
    ),
    Target(
        name="admin-body",
        decode=_body,
        errors=(),
        seeds=lambda: [
            b'\0{"readOnly": true}',
            b'\1["topic-0", "t-1"]',
            b"\1",
            b"\0" + b"[" * 1500,
            b"\1" + b"[" * 1500,
        ],
        memory_per_byte=400,
        dictionary=_WORDS,
    ),
)
