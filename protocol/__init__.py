"""Bytes to values and back, without I/O: Kafka, BookKeeper and DistributedLog formats."""
