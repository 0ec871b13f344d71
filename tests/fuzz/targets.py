"""The table of targets."""

from typing import Final

from tests.fuzz import access, batches, bodies, disks, kafka, ledgers, nodes, proxies
from tests.fuzz.target import Target

TARGETS: Final[dict[str, Target]] = {
    target.name: target
    for module in (kafka, batches, ledgers, nodes, disks, bodies, proxies, access)
    for target in module.TARGETS
}
