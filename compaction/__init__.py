"""Retention, the log cleaner, and what a restore of a changelog does."""
