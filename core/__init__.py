"""The DistributedLog: endless logs made of ledgers."""
