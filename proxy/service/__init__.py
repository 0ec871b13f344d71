"""The gRPC services of a proxy."""
