"""A store of ledger entries in BookKeeper's formats and protocol."""
