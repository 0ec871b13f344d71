"""Streams that a read proxy reads once for many readers."""
