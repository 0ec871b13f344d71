"""The contract of the serving layer: gRPC messages and services, and how a request is checked."""
