"""Auto-recovery: which ledgers lost replicas, and copying them to other bookies."""
