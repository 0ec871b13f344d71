"""Faults that a test asks for while the broker runs; only under `--test-faults`."""
