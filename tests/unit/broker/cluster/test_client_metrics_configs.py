"""What a subscription of client metrics may say; its patterns are whatever a client sends."""

import pytest

from tailrace.broker.cluster.alterations import Alteration, Changes, ConfigOp
from tailrace.broker.cluster.client_metrics_configs import altered_metrics
from tailrace.broker.cluster.config_def import InvalidConfig

MATCH = "match"


def matching(patterns: str) -> Changes:
    return Changes([Alteration(MATCH, ConfigOp.SET, patterns)])


def test_patterns_are_kept_in_canonical_text() -> None:
    changes = matching("client_id = app-.* ,client_software_name=x")
    assert altered_metrics({}, changes)[MATCH] == "client_id = app-.*,client_software_name=x"


@pytest.mark.parametrize("expression", ["(" * 5000, "a{99999999999999999999}", "[", "*"])
def test_what_is_no_pattern_is_refused(expression: str) -> None:
    with pytest.raises(InvalidConfig, match="Illegal client matching pattern"):
        altered_metrics({}, matching(f"client_id={expression}"))
