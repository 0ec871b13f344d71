"""What all writers and recoverers of one client share."""

from typing import NamedTuple

from tailrace.core.ledger.bookie_registry import BookieRegistry
from tailrace.core.ledger.ensembles import Ensembles
from tailrace.core.ledger.metadata_update import LedgerNodes


class LedgerContext(NamedTuple):
    """Where ledgers are described, where their bookies are, and which ones to take."""

    nodes: LedgerNodes
    bookies: BookieRegistry
    ensembles: Ensembles
