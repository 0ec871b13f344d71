"""The metadata store: znode-like paths with versions, and what lies in them."""
