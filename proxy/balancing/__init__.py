"""Balancing: which streams move from which write proxy to which, and the moves."""
