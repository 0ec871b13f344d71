"""Logs in the simulated cluster: their owners, readers, faults, and what must hold."""
