"""Delegation tokens (KIP-48, 373): what a user gives to processes that act for it, for a time."""
