"""Kafka's face: connections, one handler for each API, partitions over log streams."""
