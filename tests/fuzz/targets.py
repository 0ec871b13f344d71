"""The table of targets."""

from typing import Final

from tests.fuzz import batches, bodies, disks, kafka, ledgers, nodes, oauth, proxies
from tests.fuzz.target import Target

TARGETS: Final[dict[str, Target]] = {
    target.name: target
    for module in (kafka, batches, ledgers, nodes, disks, bodies, proxies, oauth)
    for target in module.TARGETS
}
