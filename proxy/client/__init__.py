"""The thin client: which proxy to ask, what an answer means, how calls reach a proxy."""
