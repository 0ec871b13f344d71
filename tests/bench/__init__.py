"""Measurements beside Apache Kafka: ratios within one run, never asserted. `make bench`."""
